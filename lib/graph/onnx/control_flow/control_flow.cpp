#include "graph/onnx/control_flow/control_flow.h"

#include <algorithm>

#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/constant_integers.h"
#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {
namespace {

LoopOutput declared(const onnx::ValueInfoProto& output) {
  const auto& type = output.type().tensor_type();
  LoopOutput result{data_type_from_proto(type.elem_type(), output.name()), {}};
  for (const auto& dim : type.shape().dim())
    result.shape.push_back(std::max<std::int64_t>(dim.dim_value(), 0));
  return result;
}

}  // namespace

const onnx::GraphProto& body_of(const onnx::NodeProto& node, std::string_view name) {
  const auto* attribute = find_attribute(node, name);
  if (attribute == nullptr || !attribute->has_g()) fail("it has no graph '{}'", name);
  return attribute->g();
}

std::optional<std::int64_t> known(ValueId id, NodeReader& reader) {
  const Value& value = reader.value(id);
  const auto& constant = value.constant;
  if (!constant || !constant->has_data() || constant->elements() != 1) return std::nullopt;
  return constant_integers(value).front();
}

[[noreturn]] void fail_unknown(const std::string& what) {
  throw UnknownShape(what + ": give a model input's value with --constant");
}

std::string described(const Value& value) {
  return fmt::format("{} {}", name_of(value.type), to_string(value.shape));
}

ValueId integer(std::int64_t value, NodeReader& reader) {
  return reader.add_constant(Tensor::of_int64({}, std::span(&value, 1)));
}

ValueId truth(bool value, NodeReader& reader) {
  Tensor tensor = Tensor::zeros(DataType::boolean, {});
  tensor.mutable_bytes()[0] = static_cast<std::byte>(value);
  return reader.add_constant(std::move(tensor));
}

ValueId vector_of(const Shape& values, NodeReader& reader) {
  return reader.add_constant(Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
}

ValueId stacked(const Values& parts, std::int64_t axis, NodeReader& reader) {
  if (parts.empty())
    fail("it goes over no sequence, so that the shape of its outputs is not known");
  const ValueId axes = vector_of({axis}, reader);
  Values wide;
  for (const ValueId part : parts) wide.push_back(reader.add("Unsqueeze", {part, axes}, {}));
  return wide.size() == 1 ? wide[0] : reader.add("Concat", wide, {{"axis", axis}});
}

ValueId part(ValueId of, std::int64_t index, std::int64_t axis, NodeReader& reader) {
  return reader.add("Gather", {of, integer(index, reader)}, {{"axis", axis}});
}

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

std::vector<LoopOutput> outputs_of_no_round(const onnx::GraphProto& body, std::size_t first,
                                            NodeReader& reader,
                                            const std::function<Values(ValueId round)>& read) {
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
