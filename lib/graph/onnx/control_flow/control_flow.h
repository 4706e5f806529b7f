#pragma once

#include "graph/onnx/control_flow/node_reader.h"

namespace autopar::graph {

/// The readers below return the node's outputs, and throw Error where the node needs what is known
/// in a run alone. `inputs` has no_value for inputs that are left out.

/// Reads one branch where the condition is known. Else both, and each output is the one or the
/// other by Where: so both are computed, and their outputs must have one type and shape.
Values read_if(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader);

/// Unrolls the loop where its trip count is known and no more than most_rounds, and it adds no more
/// than most_unrolled_nodes. Where only the run tells whether it goes on, all rounds are made, and
/// values stay as they are behind the last one that counts. Other loops become one node
/// (native_loop.h).
Values read_loop(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader);

/// Unrolls the scan, or makes a Loop of it beyond the same limits. Before opset 9, it went over the
/// sequences of a batch.
Values read_scan(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader);

/// The reader of one of ONNX's operators on sequences and optional values, which makes nodes on the
/// tensors that they hold; null for other operators. It fails where only the run tells which tensor
/// is meant or how many there are.
using ReadNode = Values (*)(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader);
ReadNode find_sequence_operator(std::string_view op_type);

// What the readers have in common.

/// The nested graph of that name.
const onnx::GraphProto& body_of(const onnx::NodeProto& node, std::string_view name);

/// The number of a constant of one; nullopt where it is known in a run alone.
std::optional<std::int64_t> known(ValueId id, NodeReader& reader);

/// "float32 2x3".
std::string described(const Value& value);

/// Constants: a number, a truth, a list of numbers.
ValueId integer(std::int64_t value, NodeReader& reader);
ValueId truth(bool value, NodeReader& reader);
ValueId vector_of(const Shape& values, NodeReader& reader);

/// The values along a new dimension.
ValueId stacked(const Values& parts, std::int64_t axis, NodeReader& reader);
/// `yes` where the condition, of one element, holds, else `no`.
ValueId either(ValueId condition, ValueId yes, ValueId no, NodeReader& reader);

/// Throws UnknownShape.
[[noreturn]] void fail_unknown(const std::string& what);

/// What has one index along a dimension, without that.
ValueId part(ValueId of, std::int64_t index, std::int64_t axis, NodeReader& reader);

// What Loop and Scan have in common where their rounds are read one after the other.

/// The graph may grow by so many nodes where a Loop or Scan is unrolled.
inline constexpr std::size_t most_unrolled_nodes = 20000;

/// Counts the nodes that unrolling adds.
class Growth {
 public:
  explicit Growth(NodeReader& reader) : reader_(reader), before_(reader.nodes()) {}
  bool is_too_much(std::int64_t rounds) const {
    return reader_.nodes() - before_ > most_unrolled_nodes || rounds > most_rounds;
  }

 private:
  NodeReader& reader_;
  std::size_t before_;
};

/// Throws Error where the body has other numbers of inputs and outputs, or the node more outputs.
void check_ports(const onnx::NodeProto& node, const onnx::GraphProto& body, std::size_t inputs,
                 std::size_t outputs);

/// Values of the graph at `depth` as the innermost graph has them.
Values brought_in(Values values, int depth, NodeReader& reader);

/// The tensor that no round collects: 0 along a new dimension.
ValueId none_of(const LoopOutput& of_round, std::int64_t axis, NodeReader& reader);

/// The outputs of a round, from the first that is collected on, where no round is made: its nodes
/// are read for their shapes and thrown away. Extents that these do not tell are those that the
/// graph's outputs declare, and 0 where they declare none, as ONNX Runtime has it. `read` reads a
/// round of the number that it is given.
std::vector<LoopOutput> outputs_of_no_round(const onnx::GraphProto& body, std::size_t first,
                                            NodeReader& reader,
                                            const std::function<Values(ValueId round)>& read);

}  // namespace autopar::graph
