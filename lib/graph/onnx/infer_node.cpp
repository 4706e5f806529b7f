#include "graph/onnx/infer_node.h"

#include "graph/onnx/collective_schemas.h"
#include "graph/onnx/node_inference.h"
#include "graph/onnx/node_to_proto.h"

namespace autopar::graph {

std::vector<OutputType> infer_node(const Graph& graph, const Node& node) {
  register_collective_schemas();
  NodeInContext context{node_to_proto(graph, node), {}, nullptr, graph.opsets};
  context.schema = &schema_of(context.node, context.opsets, graph.name);
  for (const ValueId id : node.inputs) {
    context.inputs.push_back(id == no_value ? nullptr : &graph.value(id));
  }
  std::vector<OutputType> outputs;
  for (InferredOutput& output : infer_outputs(context, graph.name)) {
    outputs.push_back({output.type, std::move(output.shape)});
  }
  return outputs;
}

}  // namespace autopar::graph
