#include "graph/onnx/node_conversion.h"

#include "graph/onnx/operator_advice.h"
#include "graph/onnx/topological_order.h"

namespace autopar::graph {
namespace {

using onnx::AttributeProto;

Attribute convert(const AttributeProto& attribute, const onnx::NodeProto& node,
                  const TensorReader& read_tensor, std::string_view where) {
  switch (attribute.type()) {
    case AttributeProto::INT:
      return attribute.i();
    case AttributeProto::FLOAT:
      return attribute.f();
    case AttributeProto::STRING:
      return attribute.s();
    case AttributeProto::INTS:
      return std::vector<std::int64_t>(attribute.ints().begin(), attribute.ints().end());
    case AttributeProto::FLOATS:
      return std::vector<float>(attribute.floats().begin(), attribute.floats().end());
    case AttributeProto::STRINGS:
      return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
    case AttributeProto::TENSOR:
      return read_tensor(attribute.t());
    default:
      fail("{}: {} has attribute '{}' of a kind that is not supported ({})", where, describe(node),
           attribute.name(), AttributeProto::AttributeType_Name(attribute.type()));
  }
}

/// Tensors of what a Constant's attributes may hold.
struct ToTensor {
  Tensor operator()(std::int64_t value) const { return Tensor::of_int64({}, std::span(&value, 1)); }
  Tensor operator()(float value) const { return Tensor::of_float({}, std::span(&value, 1)); }
  Tensor operator()(const std::vector<std::int64_t>& values) const {
    return Tensor::of_int64({std::ssize(values)}, values);
  }
  Tensor operator()(const std::vector<float>& values) const {
    return Tensor::of_float({std::ssize(values)}, values);
  }
  Tensor operator()(const Tensor& tensor) const { return tensor; }
  Tensor operator()(const std::string&) const { return refuse_strings(); }
  Tensor operator()(const std::vector<std::string>&) const { return refuse_strings(); }

  [[noreturn]] Tensor refuse_strings() const {
    fail("{} holds strings, which are not supported: {}", where, advice_about_strings);
  }
  std::string where;
};

}  // namespace

std::map<std::string, Attribute> convert_attributes(const onnx::NodeProto& node,
                                                    const TensorReader& read_tensor,
                                                    std::string_view where) {
  std::map<std::string, Attribute> attributes;
  for (const auto& attribute : node.attribute())
    attributes.insert_or_assign(attribute.name(), convert(attribute, node, read_tensor, where));
  return attributes;
}

Node convert_node(const onnx::NodeProto& node, ModelFile& file) {
  Node result;
  result.name = node.name();
  result.op_type = node.op_type();
  result.domain = canonical_domain(node.domain());
  result.attributes = convert_attributes(
      node, [&file](const auto& tensor) { return file.tensor(tensor); }, file.path().string());
  return result;
}

Tensor constant_of(const onnx::NodeProto& node, ModelFile& file) {
  const std::string where = fmt::format("{}: {}", file.path().string(), describe(node));
  if (node.attribute_size() != 1) fail("{} must have one value", where);
  const Node converted = convert_node(node, file);
  return std::visit(ToTensor{where}, converted.attributes.begin()->second);
}

}  // namespace autopar::graph
