#pragma once

#include <onnx/onnx_pb.h>

#include "graph/loop_body.h"
#include "graph/onnx/import/model_reading.h"

namespace autopar::graph {

using Values = std::vector<ValueId>;

/// More rounds than this are not unrolled, nor are longer sequences made.
inline constexpr std::int64_t most_rounds = 10000;

/// An output of a Loop node.
struct LoopOutput {
  DataType type = DataType::undefined;
  Shape shape;
};

/// Reads one node with nested graphs, or of sequences, into nodes on tensors: what it needs of the
/// graph around the node.
class NodeReader {
 public:
  /// `node` and `scope` must outlive this. `opset` is the node's.
  NodeReader(const onnx::NodeProto& node, std::int64_t opset, Scope& scope);

  std::int64_t opset() const { return opset_; }
  /// Whether loops are unrolled where that can be done.
  bool unrolls() const { return model_.options.unrolls; }
  Sequences& sequences() { return model_.sequences; }
  /// Makes the bodies of loops that are not unrolled.
  BodyFrames& frames() { return model_.frames; }
  /// Nodes so far.
  std::size_t nodes() const { return model_.builder().nodes(); }
  /// A tensor; throws Error where the id stands for something else.
  const Value& value(ValueId id) const { return tensor_value(id, node_, model_); }
  /// Whether it is an input of the model, or of the loop's body that is read.
  bool is_input(ValueId id) const { return model_.builder().is_input(id); }
  /// Keeps shapes for whose sake the node is refused.
  void note_refusal(std::vector<Shape> shapes) { model_.note_refusal(std::move(shapes)); }

  /// Reads a nested graph whose inputs are these values; returns what its outputs are. `round`
  /// numbers the times that a node's graphs are read and is part of names, unless it is negative.
  Values read(const onnx::GraphProto& body, const Values& inputs, int round);
  /// Counts a round of a loop that is unrolled. Throws LimitReached.
  void count_round();
  /// Adds a node of ONNX's domain with one output, or folds it; returns that.
  ValueId add(const std::string& op_type, const Values& inputs,
              const std::map<std::string, Attribute>& attributes);
  ValueId add_constant(Tensor tensor);
  /// Adds the node that is read as a Loop of these inputs and body, in the place of its own.
  Values add_loop(Values inputs, LoopBody body, const std::vector<LoopOutput>& outputs);

 private:
  Scope scope_within(const Scope& parent, std::string prefix) const;

  const onnx::NodeProto& node_;
  const std::int64_t opset_;
  Scope& scope_;
  ModelReading& model_;
  const std::string prefix_;  ///< of names from inside
  const int depth_;           ///< of the graph that the node is in
  /// The initializers of each nested graph, which all rounds share.
  std::map<const onnx::GraphProto*, Scope> initializers_;
};

/// Reads a node with nested graphs into nodes without, but for loops that only the run ends, and
/// operators on sequences into operators on their tensors; defines the outputs. False for other
/// nodes.
bool read_control_flow(const onnx::NodeProto& node, std::int64_t opset, Scope& scope);

}  // namespace autopar::graph
