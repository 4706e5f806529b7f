#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/onnx/body_frames.h"
#include "graph/onnx/sequences.h"

namespace autopar::graph {

/// An output of a Loop node.
struct LoopOutput {
  DataType type = DataType::undefined;
  Shape shape;
};

using AddedAttributes =
    std::vector<std::pair<std::string, std::variant<std::int64_t, std::vector<std::int64_t>>>>;

/// What reading a node with nested graphs needs of the graph around it.
struct ControlFlowServices {
  const std::function<const Value&(ValueId)> value;
  /// Reads a nested graph whose inputs are these values; returns what its outputs are. `round`
  /// numbers the times that a node's graphs are read and is part of names, unless it is negative.
  const std::function<std::vector<ValueId>(const onnx::GraphProto& body,
                                           const std::vector<ValueId>& inputs, int round)>
      read;
  /// Adds a node of ONNX's domain with one output, or folds it; returns that.
  const std::function<ValueId(const std::string& op_type, const std::vector<ValueId>& inputs,
                              const AddedAttributes& attributes)>
      add;
  const std::function<ValueId(Tensor)> add_constant;
  /// Nodes so far.
  const std::function<std::size_t()> nodes;
  /// The sequences of the model that is read.
  Sequences& sequences;
  /// Whether loops are unrolled where that can be done.
  const bool unrolls = true;
  /// Where loops that are not unrolled get their bodies.
  BodyFrames& frames;
  /// Adds the node that is read, as a Loop of these inputs and body, in the place of its own.
  const std::function<std::vector<ValueId>(std::vector<ValueId> inputs, LoopBody body,
                                           const std::vector<LoopOutput>& outputs)>
      add_loop;
};

/// The graph may grow by so many nodes where a Loop or Scan is unrolled.
inline constexpr std::size_t most_unrolled_nodes = 20000;
inline constexpr std::int64_t most_rounds = 10000;

/// Each returns what the node's outputs are, and throws Error where the node needs what is known in
/// a run alone. `inputs` has no_value for what is left out.

/// Where the condition is known, the one branch. Else both, and each output is the one or the other
/// by Where: so both are computed, and their outputs must have one type and shape.
std::vector<ValueId> read_if(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                             std::int64_t opset, const ControlFlowServices& services);

/// Unrolled where its trip count is known and no more than most_rounds, and the nodes that this
/// makes are no more than most_unrolled_nodes: where whether it goes on is told by the run, it then
/// makes all rounds, and values stay as they are from the round on that is none. Else one node
/// (graph/native_loop.h).
std::vector<ValueId> read_loop(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                               std::int64_t opset, const ControlFlowServices& services);

/// Unrolled, or beyond the same limits a Loop of its own. Before opset 9, it went over the
/// sequences of a batch.
std::vector<ValueId> read_scan(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                               std::int64_t opset, const ControlFlowServices& services);

}  // namespace autopar::graph
