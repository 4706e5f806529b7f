#include "graph/node_to_proto.h"

#include <variant>

#include "graph/tensor_proto.h"

namespace autopar::graph {
namespace {

void set_attribute(onnx::AttributeProto& proto, std::int64_t value) {
  proto.set_type(onnx::AttributeProto::INT);
  proto.set_i(value);
}
void set_attribute(onnx::AttributeProto& proto, float value) {
  proto.set_type(onnx::AttributeProto::FLOAT);
  proto.set_f(value);
}
void set_attribute(onnx::AttributeProto& proto, const std::string& value) {
  proto.set_type(onnx::AttributeProto::STRING);
  proto.set_s(value);
}
void set_attribute(onnx::AttributeProto& proto, const std::vector<std::int64_t>& values) {
  proto.set_type(onnx::AttributeProto::INTS);
  proto.mutable_ints()->Add(values.begin(), values.end());
}
void set_attribute(onnx::AttributeProto& proto, const std::vector<float>& values) {
  proto.set_type(onnx::AttributeProto::FLOATS);
  proto.mutable_floats()->Add(values.begin(), values.end());
}
void set_attribute(onnx::AttributeProto& proto, const std::vector<std::string>& values) {
  proto.set_type(onnx::AttributeProto::STRINGS);
  for (const std::string& value : values) proto.add_strings(value);
}
void set_attribute(onnx::AttributeProto& proto, const Tensor& value) {
  proto.set_type(onnx::AttributeProto::TENSOR);
  *proto.mutable_t() = tensor_to_proto("", value);
}

}  // namespace

onnx::NodeProto node_to_proto(const Graph& graph, const Node& node) {
  onnx::NodeProto proto;
  proto.set_name(node.name);
  proto.set_op_type(node.op_type);
  proto.set_domain(node.domain);
  const auto name_of_value = [&graph](ValueId id) {
    return id == no_value ? std::string() : graph.value(id).name;
  };
  for (const ValueId input : node.inputs) proto.add_input(name_of_value(input));
  for (const ValueId output : node.outputs) proto.add_output(name_of_value(output));
  for (const auto& [name, value] : node.attributes) {
    auto& attribute = *proto.add_attribute();
    attribute.set_name(name);
    std::visit([&attribute](const auto& held) { set_attribute(attribute, held); }, value);
  }
  return proto;
}

}  // namespace autopar::graph
