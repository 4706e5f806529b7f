#include "forced_plans.h"

#include <algorithm>

#include "sharding/op_shard_spec.h"

namespace autopar::conformance {
namespace {

bool splits_nothing(const sharding::OpShardSpec& strategy) {
  return std::ranges::all_of(strategy.factor_axes, [](const auto& axes) { return axes.empty(); });
}

std::vector<sharding::OpShardSpec> splitting_strategies(const graph::Graph& graph,
                                                        const graph::Node& node,
                                                        const sharding::DeviceMesh& mesh) {
  const auto rule = sharding::sharding_rule(graph, node);
  if (!rule) return {};
  auto strategies = sharding::enumerate_op_shard_specs(
      *rule, mesh, sharding::input_shapes(graph, node), sharding::output_shapes(graph, node));
  std::erase_if(strategies, splits_nothing);
  return strategies;
}

}  // namespace

std::vector<std::vector<search::Pin>> forced_plans(const graph::Graph& graph,
                                                   const sharding::DeviceMesh& mesh) {
  std::vector<std::vector<search::Pin>> plans;
  for (const graph::Node& node : graph.nodes) {
    const auto strategies = splitting_strategies(graph, node, mesh);
    plans.resize(std::max(plans.size(), strategies.size()));
    for (std::size_t i = 0; i < strategies.size(); ++i)
      plans[i].push_back(
          {node.name, strategies[i].inputs, strategies[i].outputs, strategies[i].reductions});
  }
  return plans;
}

}  // namespace autopar::conformance
