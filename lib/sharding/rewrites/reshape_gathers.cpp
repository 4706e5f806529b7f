#include "sharding/rewrites/rewrites.h"

#include <algorithm>

#include "sharding/rules/operator.h"

namespace autopar::sharding {

namespace {

using graph::Graph;
using graph::Node;

/// Whether the indices are 0, 1, 2, ... up to the extent.
bool counts_up_to(const graph::Tensor& indices, std::int64_t extent) {
  if (indices.elements() != extent || !indices.has_data()) return false;
  std::int64_t expected = 0;
  return std::ranges::all_of(indices.to_int64s(),
                             [&](std::int64_t index) { return index == expected++; });
}

/// Whether the last dimension holds the places of all elements of that shape, row-major.
bool counts_through(const graph::Tensor& indices, const graph::Shape& shape) {
  const auto depth = static_cast<std::int64_t>(shape.size());
  if (indices.elements() != depth * graph::num_elements(shape) || !indices.has_data()) return false;
  const std::vector<std::int64_t> values = indices.to_int64s();
  for (std::size_t i = 0; i < values.size(); ++i) {
    // The place that this is part of, and which coordinate of it.
    std::int64_t rest = static_cast<std::int64_t>(i) / depth;
    const std::size_t d = i % shape.size();
    for (std::size_t minor = shape.size(); --minor > d;) rest /= shape[minor];
    if (values[i] != rest % shape[d]) return false;
  }
  return true;
}

bool takes_everything(const Graph& graph, const Node& node) {
  const bool is_lookup = node.op_type == "Gather" || node.op_type == "GatherND";
  if (!is_lookup || !node.domain.empty() || !graph.is_constant(node.inputs[1])) return false;
  const graph::Tensor& indices = *graph.value(node.inputs[1]).constant;
  const graph::Shape& data = graph.value(node.inputs[0]).shape;
  if (graph::num_elements(data) == 0) return false;
  if (node.op_type == "GatherND") {
    const auto depth = static_cast<std::ptrdiff_t>(indices.shape().back());
    return node.int_attribute("batch_dims", 0) == 0 && depth > 0 &&
           counts_through(indices, {data.begin(), data.begin() + depth});
  }
  return counts_up_to(indices, data[rules::dimension(node.int_attribute("axis", 0), data.size())]);
}

}  // namespace

void reshape_whole_gathers(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (!takes_everything(graph, node)) continue;
    const graph::Shape shape = graph.value(node.outputs[0]).shape;
    if (std::ranges::find(shape, 0) != shape.end()) continue;
    const auto rank = static_cast<std::int64_t>(shape.size());
    node.op_type = "Reshape";
    node.inputs[1] =
        graph.add_constant(node.name + "/shape", graph::Tensor::of_int64({rank}, shape));
    node.attributes.clear();
  }
  graph::remove_dead_nodes(graph);
}

}  // namespace autopar::sharding
