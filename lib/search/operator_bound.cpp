#include "search/operator_bound.h"

#include <algorithm>
#include <numeric>

#include "cost/cost_model.h"
#include "graph/arena.h"
#include "graph/loop_body.h"
#include "search/joined_weights.h"

namespace autopar::search {

namespace {

std::int64_t activation_bytes(const graph::Graph& graph) {
  return graph::plan_arena(graph::value_lifetimes(graph)).bytes + graph::bodies_bound(graph);
}

/// The constants in bodies of loops.
std::int64_t bytes_of_bodies(const graph::Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::Node& node : graph.nodes)
    if (node.body) bytes += graph::constant_bytes(node.body->graph);
  return bytes;
}

}  // namespace

std::vector<std::vector<double>> least_operator_seconds(std::span<const int> devices,
                                                        const graph::Graph& graph,
                                                        const cost::DeviceModel& device) {
  const cost::CostModel alone(device, sharding::DeviceMesh({1}));
  std::vector<std::vector<double>> seconds(devices.size());
  for (const graph::Node& node : graph.nodes) {
    const auto rule = sharding::rule_or_replicated(graph, node);
    const auto choices = sharding::enumerate_op_shard_specs(graph, node, rule, alone.mesh());
    for (std::size_t i = 0; i < devices.size(); ++i) {
      seconds[i].push_back(
          alone.least_operator_seconds(devices[i], graph, node, rule, choices.front()));
    }
  }
  return seconds;
}

double least_seconds_on(int devices, const graph::Graph& graph, const cost::DeviceModel& device) {
  const auto seconds = least_operator_seconds({&devices, 1}, graph, device).front();
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double least_seconds_on(int devices, std::span<const Profile> profiles) {
  double seconds = 0;
  for (const Profile& each : profiles)
    seconds += each.weight * least_seconds_on(devices, each.stage->graph, each.cost->device());
  return seconds;
}

std::int64_t bytes_on_one_device(const graph::Graph& graph) {
  return graph::constant_bytes(graph) + activation_bytes(graph);
}

std::int64_t bytes_on_one_device(std::span<const Profile> profiles) {
  if (profiles.size() == 1) return bytes_on_one_device(profiles.front().stage->graph);
  std::vector<const graph::Graph*> graphs;
  std::int64_t most = 0;
  for (const Profile& each : profiles) {
    graphs.push_back(&each.stage->graph);
    most = std::max(most, activation_bytes(each.stage->graph) + bytes_of_bodies(each.stage->graph));
  }
  return joined_weight_bytes(graphs) + most;
}

}  // namespace autopar::search
