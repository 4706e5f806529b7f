#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/device.h"

namespace autopar::runtime {

/// A state of a session on one rank: an output that takes an input's place in the next step.
struct StateBuffer {
  std::string output;
  std::string input;
  graph::DataType type = graph::DataType::undefined;
  graph::Shape shape;  ///< this rank's part; along the dimension that grows, the most rows
};

/// The states of a session, on a rank's device and outside of all arenas, so that Executables of
/// several shapes go on from one another: a prompt of 37 rows, then steps of one. They begin as
/// zeros.
///
/// A graph may have an input of a state in the buffer's shape, which then is the buffer, or with
/// another extent along one dimension, as a prompt's past of 0 rows: that has memory of its own,
/// and the buffer's first rows are copied there. Outputs go to the buffer in either case.
class StateBuffers {
 public:
  /// Throws Error for a type whose elements do not begin at bytes, and where the device's memory is
  /// too small. The device outlives it.
  StateBuffers(Device& device, std::vector<StateBuffer> states);

  std::span<const StateBuffer> states() const { return states_; }
  /// What they take on the device.
  std::int64_t bytes() const { return bytes_; }
  /// Zeros everywhere, behind all that the device has to do. Of states that grow the first `rows`
  /// count as written.
  void begin(std::int64_t rows);
  graph::Tensor read(std::size_t state) const;
  void write(std::size_t state, const graph::Tensor& tensor);

  /// Where an input of the graph lies, if it is a buffer; null for others.
  std::byte* place_of(const graph::Graph& graph, graph::ValueId input) const;

  /// How a graph and the buffers meet. Each joins the device's queue of computation.
  struct Copies {
    /// After a run, rows to the buffers. A run's new rows, the output's last ones, go behind those
    /// that are written; rows of a state that does not grow, or of which the model keeps_places, go
    /// to where they are in the output. Throws Error where a buffer has no place for them.
    std::function<void()> hand_on;
    /// Before a run, the buffers' first rows to inputs that are no buffer.
    std::function<void()> fill;
  };
  /// `inputs` and `outputs` are where the graph's lie. Throws Error, naming both, for a graph whose
  /// state has another type than the buffer or differs in more than one dimension.
  Copies copies(const graph::Graph& graph, std::span<const TensorView> inputs,
                std::span<const TensorView> outputs);

 private:
  const StateBuffer* find(const std::string& input) const;
  TensorView view(const StateBuffer& state) const;

  Device& device_;
  std::vector<StateBuffer> states_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int64_t> rows_;  ///< that are written, of states that grow
  std::int64_t bytes_ = 0;
  std::shared_ptr<std::byte> memory_;
};

}  // namespace autopar::runtime
