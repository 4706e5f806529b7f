#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/batch_parts.h"
#include "runtime/executable.h"
#include "runtime/rank_context.h"
#include "runtime/span.h"

namespace autopar::runtime {

/// What a pipeline is to the runs of its ranks.
struct Pipeline {
  std::vector<std::vector<int>> stages = {};  ///< the world's ranks by stage
  int microbatches = 1;
  std::vector<std::string> common_inputs = {};  ///< that all microbatches have in common
};

/// A graph of one rank of a bundle, or a whole model, on the rank's device: compiled, fed and
/// timed. Every rank of `host` makes one and calls the same functions, in the thread that made it.
class RankRun {
 public:
  /// One of any number of graphs that run on the rank, in any order: all ranks make and run theirs
  /// in the same one. `rank` must outlive it.
  RankRun(const graph::Graph& graph, RankContext& rank, const Pipeline& pipeline = {});
  /// On a rank of its own.
  RankRun(const graph::Graph& graph, const DeviceOptions& device, HostCommunicator& host,
          const LocalRanks& local, std::chrono::milliseconds timeout,
          const Pipeline& pipeline = {});

  /// Inputs that `parts` lacks keep what they have.
  void write_inputs(const InputParts& parts);

  struct Seconds {
    double host = 0;    ///< from when all ranks start until all are done
    double device = 0;  ///< by the device's clock
  };
  /// What a run has to do with the rank's StateBuffers.
  enum class States {
    apart,      ///< nothing: all its inputs were written
    read,       ///< its states have what the buffers have
    handed_on,  ///< and what it makes of them goes back, for the step that follows
  };
  Seconds run(States states = States::apart);
  /// What the last run has made of states goes to the rank's buffers.
  void hand_on_states() { executable_.hand_on_states(); }
  /// A run that takes the time of each step; what it sends is not counted.
  std::vector<Span> profile();

  const Executable& executable() const { return executable_; }
  /// What it counts is told since the last reset.
  CollectiveContext& collectives() { return rank_.collectives(); }
  /// Beside weights and states: the arena, and constants that were computed. Of several graphs on a
  /// rank the sum counts some more than once: see ConstantStore::shared_bytes.
  std::int64_t graph_bytes() const;
  /// Weights, states and that.
  std::int64_t peak_bytes() const;

  /// Ends all that this rank's communicators wait for.
  void abort() noexcept { rank_.abort(); }

 private:
  RankRun(const graph::Graph& graph, std::unique_ptr<RankContext> rank, const Pipeline& pipeline);

  std::unique_ptr<RankContext> own_rank_;  ///< where none was given
  RankContext& rank_;
  int microbatches_;
  Executable executable_;
  std::int64_t weight_bytes_;
  std::vector<std::string> input_names_;
};

/// The outputs of a model that is not split, run in this thread: what a bundle's are compared with.
/// Inputs that fit the graph's are the caller's care.
NamedTensors run_whole(const graph::Graph& graph, const NamedTensors& inputs,
                       const DeviceOptions& device);

}  // namespace autopar::runtime
