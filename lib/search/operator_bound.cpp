#include "search/operator_bound.h"

#include "cost/cost_model.h"

namespace autopar::search {

namespace {

double least_seconds(int devices, const graph::Graph& graph, const graph::Node& node,
                     const cost::CostModel& alone) {
  const auto known = sharding::sharding_rule(graph, node);
  const auto rule = known ? *known : sharding::replicated_rule(graph, node);
  const auto choices =
      sharding::enumerate_op_shard_specs(rule, alone.mesh(), sharding::input_shapes(graph, node),
                                         sharding::output_shapes(graph, node));
  return alone.least_operator_seconds(devices, graph, node, rule, choices.front());
}

}  // namespace

double least_seconds_on(int devices, const graph::Graph& graph, const cost::DeviceModel& device) {
  const cost::CostModel alone(device, sharding::DeviceMesh({1}));
  double seconds = 0;
  for (const graph::Node& node : graph.nodes) seconds += least_seconds(devices, graph, node, alone);
  return seconds;
}

}  // namespace autopar::search
