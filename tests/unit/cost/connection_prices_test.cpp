#include "cost/connection_prices.h"

#include <catch2/catch.hpp>

#include "cost/device_file.h"
#include "sharding/op_shard_spec.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using namespace autopar::cost;
using Catch::Matchers::WithinRel;

TEST_CASE(
    "reductions cost what the cost model says, in chains within nodes and between them, too") {
  const DeviceModel device = load_device_model("h100-cluster");
  Random random(12);
  int chains = 0;
  for (const auto& sizes : {std::vector{2, 8}, {2, 2, 4}, {4, 2, 2}}) {
    const CostModel cost(device, sharding::DeviceMesh(sizes));
    for (int round = 0; round < 12; ++round) {
      const graph::Graph graph = RandomGraph(random).grow(4);
      ConnectionPrices prices(cost);
      for (const graph::Node& node : graph.nodes) {
        const sharding::ShardingRule rule = sharding::rule_or_replicated(graph, node);
        for (const auto& strategy : enumerate_op_shard_specs(graph, node, rule, cost.mesh())) {
          const double seconds = cost.reduction_seconds(graph, node, rule, strategy);
          CAPTURE(node.op_type, to_string(strategy));
          CHECK_THAT(prices.reduction_seconds(graph, node, rule, strategy),
                     WithinRel(seconds, 1e-9));
          for (std::size_t o = 0; o < node.outputs.size(); ++o) {
            const graph::Value& output = graph.value(node.outputs[o]);
            chains += cost.reduction(strategy, o, output.shape, output.type).steps.size() > 1;
          }
        }
      }
    }
  }
  CHECK(chains > 100);
}
