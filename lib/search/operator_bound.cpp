#include "search/operator_bound.h"

#include <numeric>

#include "cost/cost_model.h"
#include "graph/arena.h"

namespace autopar::search {

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

std::int64_t bytes_on_one_device(const graph::Graph& graph) {
  return graph::constant_bytes(graph) + graph::plan_arena(graph::value_lifetimes(graph)).bytes +
         graph::bodies_bound(graph);
}

}  // namespace autopar::search
