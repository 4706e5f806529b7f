#include "sharding/rewrites/rewrites.h"

namespace autopar::sharding {

namespace {

using graph::Graph;
using graph::Node;

/// A flat constant of so many rows, whatever each has.
bool is_flat(const Graph& graph, const Node& node, std::size_t input, std::int64_t rows) {
  if (input >= node.inputs.size() || !graph.is_constant(node.inputs[input]) || rows < 1) {
    return false;
  }
  const graph::Tensor& tensor = *graph.value(node.inputs[input]).constant;
  return tensor.shape().size() == 1 && tensor.elements() > 0 && tensor.elements() % rows == 0;
}

}  // namespace

void unflatten_packed_scales(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.domain != "com.microsoft" || node.op_type != "MatMulNBits") continue;
    const std::int64_t rows = node.int_attribute("N", 0);
    for (const std::size_t input : {std::size_t{2}, std::size_t{3}}) {
      if (!is_flat(graph, node, input, rows)) continue;
      const graph::Value value = graph.value(node.inputs[input]);
      node.inputs[input] = graph.add_constant(
          value.name, value.constant->reshaped({rows, value.constant->elements() / rows}));
    }
  }
  graph::remove_dead_nodes(graph);
}

}  // namespace autopar::sharding
