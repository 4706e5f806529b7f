#include "cost/connection_prices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

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
            chains += cost.reduction(strategy, o, output).steps.size() > 1;
          }
        }
      }
    }
  }
  CHECK(chains > 100);
}

TEST_CASE("chains that are found once for symmetric axes cost what each takes by itself") {
  struct Case {
    const char* device;
    std::vector<int> sizes;
    sharding::Shape shape;
  };
  constexpr std::size_t most_specs = 1000;
  constexpr std::size_t sampled_specs = 20;
  std::mt19937 random(6);
  for (const auto& [device, sizes, shape] :
       {Case{"h200", {2, 2, 2}, {8, 12}}, Case{"h200", {2, 3, 2}, {8, 7}},
        Case{"h100-cluster", {2, 2, 2, 2}, {32}}, Case{"h100-cluster", {2, 4, 2}, {64, 8}},
        Case{"h100-cluster", {2, 2, 4}, {3, 64}}, Case{"h200", {2, 2, 2, 2, 2}, {32, 32}},
        Case{"h100-cluster", {2, 2, 2, 2, 2, 2}, {64}}}) {
    const CostModel cost(load_device_model(device), sharding::DeviceMesh(sizes));
    std::vector<sharding::TensorShardSpec> specs =
        sharding::enumerate_tensor_shard_specs(shape, cost.mesh());
    for (std::size_t i = 0, whole = specs.size(); i < whole; ++i) {
      sharding::TensorShardSpec partial = specs[i];
      for (int axis = 0; axis < cost.mesh().num_axes(); ++axis)
        if (!partial.uses(axis)) partial.partial.push_back(axis);
      if (partial.is_partial()) specs.push_back(partial);
    }
    if (specs.size() > most_specs) {
      std::ranges::shuffle(specs, random);
      specs.resize(sampled_specs);
    }
    ConnectionPrices prices(cost);
    prices.set_threads(2);
    const auto seconds = prices.seconds(specs, specs, {"x", graph::DataType::float16, shape, {}});
    for (std::size_t a = 0; a < specs.size(); ++a)
      for (std::size_t b = 0; b < specs.size(); ++b) {
        const double found = seconds[a * specs.size() + b];
        CAPTURE(device, to_string(cost.mesh()), to_string(specs[a]), to_string(specs[b]));
        if (!can_connect(specs[a], specs[b])) {
          CHECK(std::isinf(found));
          continue;
        }
        const auto chain = sharding::connect(specs[a], specs[b], shape, graph::DataType::float16,
                                             cost.mesh(), cost.step_price());
        CHECK_THAT(found, WithinRel(chain.seconds, 1e-9));
      }
  }
}
