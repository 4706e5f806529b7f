#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/device.h"

namespace autopar::runtime {

class ConstantStore;
class StateBuffers;

struct CompileOptions {
  int threads = 1;  ///< of the CPU, where it is the device
  CollectiveContext* collectives = nullptr;
  /// Whether the passes (runtime/passes) rewrite the graph first.
  bool optimize = true;
  /// Must outlive the Executable; the CPU where null.
  Device* device = nullptr;
  /// A run works on so many microbatches one after another, for each of which the graph is made.
  /// What one receives from another pipeline stage, and what it sends there, overlaps with the work
  /// on those before and behind it.
  int microbatches = 1;
  /// Names of graph inputs that all microbatches have in common.
  std::vector<std::string> common_inputs = {};
  /// What the device's Executables have of constants in common; must outlive the Executable. Null:
  /// this one has its own.
  ConstantStore* constants = nullptr;
  /// Where the graph's states lie between runs of several Executables; must outlive this one, which
  /// has one microbatch. Null: a run's inputs and outputs are all that there is.
  StateBuffers* states = nullptr;
};

/// A graph compiled once into a list of kernels with a static memory plan, then run any number of
/// times without allocating. Holds views of the graph's constants, which it keeps alive.
class Executable {
 public:
  /// Throws Error naming the node whose operator, type or form no kernel serves.
  Executable(const graph::Graph& graph, const CompileOptions& options);

  /// Where a microbatch's input or output `i` of the graph lies in the device's memory, in the
  /// order of Graph::inputs and outputs. A common input lies in the same place for all.
  const TensorView& input(std::size_t i, int microbatch = 0) const {
    return inputs_.at(static_cast<std::size_t>(microbatch)).at(i);
  }
  const TensorView& output(std::size_t i, int microbatch = 0) const {
    return outputs_.at(static_cast<std::size_t>(microbatch)).at(i);
  }
  /// Write all inputs of all microbatches before each run(), whose activations reuse their memory;
  /// read outputs after it.
  void write_input(std::size_t i, const graph::Tensor& tensor, int microbatch = 0);
  graph::Tensor read_output(std::size_t i, int microbatch = 0) const;
  void run();
  /// Before a run: where CompileOptions::states has more rows than an input of a state, the first
  /// ones are copied there.
  void fill_states() {
    if (fill_states_) fill_states_();
  }
  /// After a run that is a step of a loop, rows of the outputs go to CompileOptions::states: see
  /// StateBuffers::Copies.
  void hand_on_states() {
    if (hand_on_states_) hand_on_states_();
  }
  /// A run that takes the time of each step (see Runner); what it sends is not counted.
  std::vector<Span> profile() { return runner_->profile(); }

  /// The arena (inputs, outputs, activations, scratch) without weights and buffers of states. With
  /// derived constants it is at most graph::arena_bound and graph::slot_bytes of the graph, but for
  /// scratch memory.
  std::int64_t arena_bytes() const { return arena_bytes_; }
  /// Bytes that the arena has for kernels' scratch memory alone: it would be smaller by so much
  /// without it.
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  /// See Runner::launches.
  std::int64_t launches() const { return runner_->launches(); }
  /// See Runner::device_seconds.
  double device_seconds() const { return runner_->device_seconds(); }
  /// Copying constants to the device took so long; 0 where they stay on the host.
  double upload_seconds() const { return upload_seconds_; }
  /// Constants computed when compiling (folded or realigned), beside the mapped ones. Some may be
  /// those of other Executables, too: see ConstantStore::shared_bytes.
  std::int64_t derived_constant_bytes() const { return derived_constant_bytes_; }

 private:
  std::unique_ptr<Device> own_device_;  ///< where none was given
  Device& device_;
  std::shared_ptr<ConstantStore> own_constants_;  ///< where none were given and one is needed
  CollectiveContext* collectives_;
  graph::Graph graph_;                                       ///< keeps the constants alive
  std::shared_ptr<std::byte> arena_;                         ///< of the device
  std::vector<std::shared_ptr<const void>> constants_;       ///< in use, of the store
  std::vector<std::vector<TensorView>> inputs_;              ///< by microbatch
  std::vector<std::vector<TensorView>> outputs_;             ///< by microbatch
  std::vector<const CollectiveKernel*> collective_kernels_;  ///< a step each
  std::unique_ptr<Runner> runner_;
  std::function<void()> hand_on_states_;
  std::function<void()> fill_states_;
  std::int64_t arena_bytes_ = 0;
  std::int64_t scratch_bytes_ = 0;
  std::int64_t derived_constant_bytes_ = 0;
  double upload_seconds_ = 0;
};

/// The outputs of a graph whose inputs are all constants, by the host's kernels.
std::vector<graph::Tensor> run_constants(const graph::Graph& graph, int threads);
/// The same as the evaluator for constant folding: nullopt where some operator has no kernel, or
/// its kernel refuses.
std::optional<std::vector<graph::Tensor>> evaluate_constants(const graph::Graph& graph);

}  // namespace autopar::runtime
