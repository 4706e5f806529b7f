#include "graph/onnx/control_flow/unrolling.h"

#include <algorithm>

#include "graph/onnx/tensor_proto.h"
#include "graph/onnx/unknown_shape.h"

namespace autopar::graph {
namespace {

using Values = std::vector<ValueId>;

LoopOutput declared(const onnx::ValueInfoProto& output) {
  const auto& type = output.type().tensor_type();
  LoopOutput result{data_type_from_proto(type.elem_type(), output.name()), {}};
  for (const auto& dim : type.shape().dim())
    result.shape.push_back(std::max<std::int64_t>(dim.dim_value(), 0));
  return result;
}

}  // namespace

void check_ports(const onnx::NodeProto& node, const onnx::GraphProto& body, std::size_t inputs,
                 std::size_t outputs) {
  if (body.input_size() != static_cast<int>(inputs) ||
      body.output_size() != static_cast<int>(outputs))
    fail("its graph has {} inputs and {} outputs, not {} and {}", body.input_size(),
         body.output_size(), inputs, outputs);
  if (node.output_size() > static_cast<int>(outputs))
    fail("it has {} outputs, its graph {}", node.output_size(), outputs);
}

Values brought_in(Values values, int depth, NodeReader& reader) {
  for (ValueId& id : values) id = reader.frames().bring_in(id, depth);
  return values;
}

ValueId none_of(const LoopOutput& of_round, std::int64_t axis, NodeReader& reader) {
  Shape shape = of_round.shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < 0) axis += rank + 1;
  if (axis < 0 || axis > rank) fail("what it collects has {} dimensions, not {}", rank + 1, axis);
  shape.insert(shape.begin() + axis, 0);
  return reader.add_constant(Tensor::zeros(of_round.type, shape));
}

std::vector<LoopOutput> outputs_of_no_round(
    const onnx::GraphProto& body, std::size_t first, NodeReader& reader,
    const std::function<std::vector<ValueId>(ValueId round)>& read) {
  const BodyFrames::Body thrown_away(reader.frames());
  const ValueId round = reader.frames().builder().add_input({"round", false}, DataType::int64, {});
  std::vector<LoopOutput> outputs;
  try {
    const Values made = read(round);
    for (std::size_t o = first; o < made.size(); ++o)
      outputs.push_back({reader.value(made[o]).type, reader.value(made[o]).shape});
  } catch (const UnknownShape&) {
    outputs.clear();
    for (int o = static_cast<int>(first); o < body.output_size(); ++o)
      outputs.push_back(declared(body.output(o)));
  }
  return outputs;
}

}  // namespace autopar::graph
