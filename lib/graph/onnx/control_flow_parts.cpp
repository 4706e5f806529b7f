#include "graph/onnx/control_flow_parts.h"

#include <algorithm>

namespace autopar::graph {

using Services = ControlFlowServices;
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

std::optional<std::int64_t> known(ValueId id, const Services& services) {
  const auto& constant = services.value(id).constant;
  if (!constant || !constant->has_data() || constant->elements() != 1) return std::nullopt;
  return constant->to_int64s()[0];
}

ValueId integer(std::int64_t value, const Services& services) {
  return services.add_constant(Tensor::of_int64({}, std::span(&value, 1)));
}

ValueId truth(bool value, const Services& services) {
  Tensor tensor = Tensor::zeros(DataType::boolean, {});
  tensor.mutable_bytes()[0] = static_cast<std::byte>(value);
  return services.add_constant(std::move(tensor));
}

ValueId vector_of(const Shape& values, const Services& services) {
  return services.add_constant(
      Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
}

ValueId stacked(const Values& parts, std::int64_t axis, const Services& services) {
  if (parts.empty())
    fail("it goes over no sequence, so that the shape of its outputs is not known");
  const ValueId axes = vector_of({axis}, services);
  Values wide;
  for (const ValueId part : parts) wide.push_back(services.add("Unsqueeze", {part, axes}, {}));
  return wide.size() == 1 ? wide[0] : services.add("Concat", wide, {{"axis", axis}});
}

ValueId part(ValueId of, std::int64_t index, std::int64_t axis, const Services& services) {
  return services.add("Gather", {of, integer(index, services)}, {{"axis", axis}});
}

}  // namespace autopar::graph
