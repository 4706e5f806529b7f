#include "graph/onnx/control_flow/control_flow_parts.h"

#include <algorithm>

#include "graph/onnx/unknown_shape.h"

namespace autopar::graph {

using Values = std::vector<ValueId>;

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name) {
  const auto found = std::ranges::find(node.attribute(), name, &onnx::AttributeProto::name);
  return found == node.attribute().end() ? nullptr : &*found;
}

const onnx::GraphProto& body_of(const onnx::NodeProto& node, std::string_view name) {
  const auto* attribute = find_attribute(node, name);
  if (attribute == nullptr || !attribute->has_g()) fail("it has no graph '{}'", name);
  return attribute->g();
}

std::optional<std::int64_t> known(ValueId id, NodeReader& reader) {
  const auto& constant = reader.value(id).constant;
  if (!constant || !constant->has_data() || constant->elements() != 1) return std::nullopt;
  return constant->to_int64s()[0];
}

[[noreturn]] void fail_unknown(const std::string& what) {
  throw UnknownShape(what + ": give a model input's value with --constant");
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

}  // namespace autopar::graph
