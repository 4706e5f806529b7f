#include "graph/onnx/attribute_proto.h"

#include <algorithm>

#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {
namespace {

using onnx::AttributeProto;

/// Writes each of an Attribute's kinds.
struct AttributeWriter {
  void operator()(std::int64_t value) const { kind(AttributeProto::INT).set_i(value); }
  void operator()(float value) const { kind(AttributeProto::FLOAT).set_f(value); }
  void operator()(const std::string& value) const { kind(AttributeProto::STRING).set_s(value); }
  void operator()(const std::vector<std::int64_t>& values) const {
    kind(AttributeProto::INTS).mutable_ints()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<float>& values) const {
    kind(AttributeProto::FLOATS).mutable_floats()->Add(values.begin(), values.end());
  }
  void operator()(const std::vector<std::string>& values) const {
    kind(AttributeProto::STRINGS).mutable_strings()->Add(values.begin(), values.end());
  }
  void operator()(const Tensor& value) const {
    *kind(AttributeProto::TENSOR).mutable_t() = tensor_to_proto("", value);
  }

  AttributeProto& kind(AttributeProto::AttributeType type) const {
    proto.set_type(type);
    return proto;
  }
  AttributeProto& proto;
};

}  // namespace

const AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name) {
  const auto found = std::ranges::find(node.attribute(), name, &AttributeProto::name);
  return found == node.attribute().end() ? nullptr : &*found;
}

std::int64_t int_or(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise) {
  const auto* attribute = find_attribute(node, name);
  return attribute ? attribute->i() : otherwise;
}

void add_attribute(onnx::NodeProto& node, const std::string& name, const Attribute& value) {
  AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  std::visit(AttributeWriter{attribute}, value);
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
