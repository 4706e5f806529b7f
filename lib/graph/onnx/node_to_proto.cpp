#include "graph/onnx/node_to_proto.h"

#include <algorithm>

#include "graph/loop_body.h"
#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/tensor_proto.h"

namespace autopar::graph {
namespace {

/// What a value is called; of what a body captures, as it is outside.
using NameOf = std::function<std::string(ValueId)>;

NameOf names_in(const Graph& graph) {
  return [&graph](ValueId id) { return id == no_value ? std::string() : graph.value(id).name; };
}

onnx::NodeProto to_proto(const Node& node, const NameOf& name_of);

void write_body(onnx::AttributeProto& attribute, const Node& loop, const NameOf& name_outside) {
  const LoopBody& body = *loop.body;
  const Graph& graph = body.graph;
  const std::size_t own = body_first_carried + body.carried;
  std::map<ValueId, std::string> captured;
  for (std::size_t i = own; i < graph.inputs.size(); ++i)
    captured[graph.inputs[i]] =
        name_outside(loop.inputs[i - body_first_carried + loop_first_carried]);
  const NameOf name_of = [&](ValueId id) {
    const auto found = captured.find(id);
    return found == captured.end() ? names_in(graph)(id) : found->second;
  };
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  auto& proto = *attribute.mutable_g();
  proto.set_name(graph.name);
  for (std::size_t i = 0; i < own; ++i) {
    write_type(*proto.add_input(), graph.value(graph.inputs[i]));
    if (i > 0) continue;
    // The condition, which holds in every round.
    const std::string condition = graph.value(graph.inputs[0]).name + "/condition";
    write_type(*proto.add_input(), {condition, DataType::boolean, {}, {}});
  }
  for (const Value& value : graph.values)
    if (value.constant) *proto.add_initializer() = tensor_to_proto(value.name, *value.constant);
  for (const Node& node : graph.nodes) {
    *proto.add_node() = to_proto(node, name_of);
    for (const ValueId id : node.outputs)
      if (id != no_value && std::ranges::find(graph.outputs, id) == graph.outputs.end())
        write_type(*proto.add_value_info(), graph.value(id));
  }
  for (const ValueId output : graph.outputs) write_type(*proto.add_output(), graph.value(output));
}

onnx::NodeProto to_proto(const Node& node, const NameOf& name_of) {
  onnx::NodeProto proto;
  proto.set_name(node.name);
  proto.set_op_type(node.op_type);
  proto.set_domain(node.domain);
  const std::size_t captured = node.body ? node.body->captured() : 0;
  for (std::size_t i = 0; i + captured < node.inputs.size(); ++i)
    proto.add_input(name_of(node.inputs[i]));
  for (const ValueId output : node.outputs) proto.add_output(name_of(output));
  for (const auto& [name, value] : node.attributes) add_attribute(proto, name, value);
  if (node.body) write_body(*proto.add_attribute(), node, name_of);
  return proto;
}

}  // namespace

onnx::NodeProto node_to_proto(const Graph& graph, const Node& node) {
  return to_proto(node, names_in(graph));
}

onnx::TypeProto type_of(const Value& value) {
  onnx::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(static_cast<int>(value.type));
  auto& shape = *type.mutable_tensor_type()->mutable_shape();
  for (const std::int64_t extent : value.shape) shape.add_dim()->set_dim_value(extent);
  return type;
}

void write_type(onnx::ValueInfoProto& proto, const Value& value) {
  proto.set_name(value.name);
  *proto.mutable_type() = type_of(value);
}

}  // namespace autopar::graph
