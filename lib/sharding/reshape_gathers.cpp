#include "sharding/reshape_gathers.h"

#include <algorithm>

namespace autopar::sharding {

namespace {

using graph::Graph;
using graph::Node;

/// Whether the indices are 0, 1, 2, ... up to the extent.
template <typename Index>
bool counts_up_to(const graph::Tensor& indices, std::int64_t extent) {
  const graph::Tensor contiguous = indices.contiguous_copy();
  std::int64_t expected = 0;
  for (const Index index : contiguous.values<Index>()) {
    if (index != expected++) return false;
  }
  return expected == extent;
}

bool takes_everything(const Graph& graph, const Node& node) {
  if (node.op_type != "Gather" || !node.domain.empty() || !graph.is_constant(node.inputs[1]))
    return false;
  const graph::Tensor& indices = *graph.value(node.inputs[1]).constant;
  const graph::Shape& data = graph.value(node.inputs[0]).shape;
  const auto rank = static_cast<std::int64_t>(data.size());
  const std::int64_t axis = node.int_attribute("axis", 0);
  const std::int64_t extent = data[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
  if (!indices.has_data() || indices.elements() != extent || extent == 0) return false;
  return indices.type() == graph::DataType::int32 ? counts_up_to<std::int32_t>(indices, extent)
                                                  : counts_up_to<std::int64_t>(indices, extent);
}

}  // namespace

void reshape_whole_gathers(Graph& graph) {
  bool has_changed = false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!takes_everything(graph, graph.nodes[n])) continue;
    const graph::Shape shape = graph.value(graph.nodes[n].outputs[0]).shape;
    if (std::ranges::find(shape, 0) != shape.end()) continue;
    const auto rank = static_cast<std::int64_t>(shape.size());
    const graph::ValueId wanted =
        graph.add_constant(graph.nodes[n].name + "/shape", graph::Tensor::of_int64({rank}, shape));
    Node& node = graph.nodes[n];
    node.op_type = "Reshape";
    node.inputs[1] = wanted;
    node.attributes.clear();
    has_changed = true;
  }
  if (has_changed) graph::remove_dead_nodes(graph);
}

}  // namespace autopar::sharding
