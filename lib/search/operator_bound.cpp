#include "search/operator_bound.h"

#include "cost/cost_model.h"

namespace autopar::search {

namespace {

double seconds_on_one(const graph::Graph& graph, const graph::Node& node,
                      const cost::CostModel& alone) {
  const auto known = sharding::sharding_rule(graph, node);
  const auto rule = known ? *known : sharding::replicated_rule(graph, node);
  const auto choices =
      sharding::enumerate_op_shard_specs(rule, alone.mesh(), sharding::input_shapes(graph, node),
                                         sharding::output_shapes(graph, node));
  return alone.operator_seconds(graph, node, rule, choices.front());
}

}  // namespace

double least_seconds_on(int devices, const graph::Graph& graph, const cost::DeviceModel& device) {
  const cost::CostModel alone(device, sharding::DeviceMesh({1}));
  double seconds = 0;
  for (const graph::Node& node : graph.nodes) {
    const double whole = seconds_on_one(graph, node, alone);
    if (whole == 0) continue;  // a view
    seconds += device.launch_seconds + (whole - device.launch_seconds) / devices;
  }
  return seconds;
}

}  // namespace autopar::search
