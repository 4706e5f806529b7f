#include "search/operator_bound.h"

#include "cost/cost_model.h"
#include "graph/arena.h"

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

std::vector<double> seconds_on_one_device(const graph::Graph& graph,
                                          const cost::DeviceModel& device) {
  const cost::CostModel alone(device, sharding::DeviceMesh({1}));
  std::vector<double> seconds;
  for (const graph::Node& node : graph.nodes) seconds.push_back(seconds_on_one(graph, node, alone));
  return seconds;
}

double least_share_seconds(int devices, double whole, const cost::DeviceModel& device) {
  if (whole == 0) return 0;  // a view
  return device.launch_seconds + (whole - device.launch_seconds) / devices;
}

double least_seconds_on(int devices, const graph::Graph& graph, const cost::DeviceModel& device) {
  double seconds = 0;
  for (const double whole : seconds_on_one_device(graph, device))
    seconds += least_share_seconds(devices, whole, device);
  return seconds;
}

std::int64_t bytes_on_one_device(const graph::Graph& graph) {
  return graph::constant_bytes(graph) + graph::plan_arena(graph::value_lifetimes(graph)).bytes;
}

}  // namespace autopar::search
