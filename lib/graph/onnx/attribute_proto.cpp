#include "graph/onnx/attribute_proto.h"

#include <onnx/defs/attr_proto_util.h>

#include <algorithm>

#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {

using onnx::AttributeProto;

const AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name) {
  const auto found = std::ranges::find(node.attribute(), name, &AttributeProto::name);
  return found == node.attribute().end() ? nullptr : &*found;
}

std::int64_t int_or(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise) {
  const auto* attribute = find_attribute(node, name);
  return attribute ? attribute->i() : otherwise;
}

void add_attribute(onnx::NodeProto& node, const std::string& name, const Attribute& value) {
  *node.add_attribute() = std::visit(
      [&](const auto& held) {
        if constexpr (std::is_same_v<decltype(held), const Tensor&>)
          return onnx::MakeAttribute(name, tensor_to_proto("", held));
        else
          return onnx::MakeAttribute(name, held);
      },
      value);
}

void set_attribute(onnx::NodeProto& node, const std::string& name, const Attribute& value) {
  remove_attribute(node, name);
  add_attribute(node, name, value);
}

void remove_attribute(onnx::NodeProto& node, std::string_view name) {
  auto& attributes = *node.mutable_attribute();
  attributes.erase(std::remove_if(attributes.begin(), attributes.end(),
                                  [&](const auto& each) { return each.name() == name; }),
                   attributes.end());
}

void add_default(onnx::NodeProto& node, const AttributeProto& attribute) {
  if (find_attribute(node, attribute.name()) == nullptr) *node.add_attribute() = attribute;
}

}  // namespace autopar::graph
