#include "graph/onnx/model_tensors.h"

namespace autopar::graph {
namespace {

using Visit = std::function<void(onnx::TensorProto&)>;

void visit_graph(onnx::GraphProto& graph, const Visit& visit);

void visit_node(onnx::NodeProto& node, const Visit& visit) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t()) visit(*attribute.mutable_t());
    for (auto& tensor : *attribute.mutable_tensors()) visit(tensor);
    if (attribute.has_g()) visit_graph(*attribute.mutable_g(), visit);
    for (auto& graph : *attribute.mutable_graphs()) visit_graph(graph, visit);
  }
}

void visit_graph(onnx::GraphProto& graph, const Visit& visit) {
  for (auto& initializer : *graph.mutable_initializer()) visit(initializer);
  for (auto& node : *graph.mutable_node()) visit_node(node, visit);
}

}  // namespace

void for_each_tensor(onnx::ModelProto& model, const Visit& visit) {
  visit_graph(*model.mutable_graph(), visit);
  for (auto& function : *model.mutable_functions())
    for (auto& node : *function.mutable_node()) visit_node(node, visit);
}

}  // namespace autopar::graph
