#pragma once

#include "graph/onnx/control_flow/node_reader.h"

namespace autopar::graph {

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
