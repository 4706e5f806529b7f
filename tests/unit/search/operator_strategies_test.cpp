#include "search/operator_strategies.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan_pricing.h"

using namespace autopar;
using Catch::Matchers::Contains;
using search::OperatorStrategies;
using search::Pin;
using search::Pins;
using search::StrategyTable;

namespace {

/// `count` times x = relu(x w), and an operator that autopar does not know.
graph::Graph layers(int count) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto tensor = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {64, 64}, std::nullopt});
  };
  graph::ValueId x = tensor("x");
  graph.inputs = {x};
  for (int i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    const auto w =
        graph.add_constant("w" + name, graph::Tensor::absent(graph::DataType::float32, {64, 64}));
    const auto product = tensor("product" + name);
    const auto y = tensor("y" + name);
    graph.nodes.push_back({"matmul" + name, "MatMul", "", {x, w}, {product}, {}});
    graph.nodes.push_back({"relu" + name, "Relu", "", {product}, {y}, {}});
    x = y;
  }
  const auto last = tensor("last");
  graph.nodes.push_back({"stranger", "Unknown", "nowhere", {x}, {last}, {}});
  graph.outputs = {last};
  return graph;
}

/// Strategies of one operator, each by its text.
const OperatorStrategies& of(StrategyTable& table, graph::NodeId id) { return *table.of(id); }

std::size_t place_of(const OperatorStrategies& strategies, const std::string& text) {
  for (std::size_t k = 0; k < strategies.choices.size(); ++k)
    if (to_string(strategies.choices[k]) == text) return k;
  FAIL("no strategy " << text);
  return 0;
}

}  // namespace

TEST_CASE("strategies are those of the operator's rule, each with its price and its bytes") {
  const graph::Graph graph = layers(1);
  const cost::CostModel cost = model_of("2x2");
  const std::vector<Pin> none;
  const Pins pins(none, graph);
  StrategyTable table(graph, cost, pins);
  for (const graph::NodeId id : {0, 1}) {
    const graph::Node& node = graph.node(id);
    const auto rule = *sharding::sharding_rule(graph, node);
    const OperatorStrategies& strategies = of(table, id);
    CHECK(strategies.has_rule);
    // Nothing is kept partial here.
    CHECK(strategies.choices == sharding::enumerate_op_shard_specs(
                                    rule, cost.mesh(), sharding::input_shapes(graph, node),
                                    sharding::output_shapes(graph, node), {{}, {}, false}));
    const graph::Value& output = graph.value(node.outputs[0]);
    for (std::size_t k = 0; k < strategies.choices.size(); ++k) {
      const sharding::OpShardSpec& choice = strategies.choices[k];
      INFO(to_string(choice));
      const double seconds = cost.operator_seconds(graph, node, rule, choice) +
                             cost.reduction_seconds(graph, node, rule, choice);
      CHECK(strategies.costs[k] == std::llround(seconds * 1e12));
      CHECK(strategies.output_bytes[k] == search::arena_bytes(output, choice.outputs[0], cost));
      const bool is_reduced = choice.reductions[0] != sharding::ReduceFunction::none;
      CHECK(strategies.inner_bytes[k] ==
            (is_reduced ? search::arena_bytes(output, choice.computed[0], cost) : 0));
    }
  }
  const OperatorStrategies& product = of(table, 0);
  CHECK(product.inner_bytes[place_of(product, "RS0,S0R->RR all-reduce")] >= 64 * 64 * 4);
}

TEST_CASE("operators that are alike share their strategies") {
  graph::Graph graph = layers(3);
  const cost::CostModel cost = model_of("2");
  const std::vector<Pin> none;
  const Pins free(none, graph);
  StrategyTable table(graph, cost, free);
  CHECK(table.of(0) == table.of(2));
  CHECK(table.of(1) == table.of(5));
  CHECK(table.of(0) != table.of(1));

  // Not with another type, nor with a pin.
  graph.values[static_cast<std::size_t>(graph.nodes[2].outputs[0])].type = graph::DataType::float16;
  const std::vector<Pin> pinned = {
      {"matmul2", {}, std::vector{sharding::TensorShardSpec::parse("S0R")}, {}}};
  const Pins pins(pinned, graph);
  StrategyTable other(graph, cost, pins);
  CHECK(other.of(0) != other.of(2));
  CHECK(other.of(0) != other.of(4));
  for (const auto& choice : other.of(4)->choices) CHECK(to_string(choice.outputs[0]) == "S0R");
}

TEST_CASE("a pin that leaves no strategy is refused where its operator is asked for") {
  const graph::Graph graph = layers(2);
  const cost::CostModel cost = model_of("2");
  const std::vector<Pin> pinned = {
      {"relu1", {}, std::vector{sharding::TensorShardSpec::parse("S1R")}, {}}};
  const Pins pins(pinned, graph);
  StrategyTable table(graph, cost, pins);
  CHECK_NOTHROW(table.of(1));
  CHECK_THROWS_WITH(table.of(3), Contains("'relu1'"));
}

TEST_CASE("a pin may name axes in any order within a dimension") {
  const graph::Graph graph = layers(1);
  const cost::CostModel cost = model_of("2x2");
  const std::vector<Pin> pinned = {
      {"relu0", {}, std::vector{sharding::TensorShardSpec::parse("S10R")}, {}}};
  const Pins pins(pinned, graph);
  StrategyTable table(graph, cost, pins);
  REQUIRE(of(table, 1).choices.size() == 1);
  CHECK(to_string(of(table, 1).choices[0]) == "S10R->S10R");
}

TEST_CASE("an operator without a rule has one strategy, replicated") {
  const graph::Graph graph = layers(1);
  const cost::CostModel cost = model_of("2x2");
  const std::vector<Pin> none;
  const Pins pins(none, graph);
  StrategyTable table(graph, cost, pins);
  const OperatorStrategies& strategies = of(table, 2);
  CHECK_FALSE(strategies.has_rule);
  REQUIRE(strategies.choices.size() == 1);
  CHECK(to_string(strategies.choices[0]) == "RR->RR");
}

TEST_CASE("a value's bytes in the arena are the largest share's, rounded up") {
  const graph::Value value{"x", graph::DataType::float32, {10, 64}, std::nullopt};
  const cost::CostModel cost = model_of("4");
  const auto bytes = [&](const char* spec) {
    return search::arena_bytes(value, sharding::TensorShardSpec::parse(spec), cost);
  };
  CHECK(bytes("RR") >= 10 * 64 * 4);
  CHECK(bytes("S0R") >= 3 * 64 * 4);
  CHECK(bytes("S0R") < bytes("RR"));
  CHECK(bytes("RS0") < bytes("S0R"));  // 16 columns of 10 rows, against 3 rows of 64
}

TEST_CASE("a price out of all proportion is refused") {
  CHECK(search::picoseconds(1.5e-6, "it") == 1'500'000);
  CHECK_THROWS_WITH(search::picoseconds(1e5, "the operator"), Contains("the operator"));
  CHECK_THROWS_AS(search::picoseconds(std::numeric_limits<double>::quiet_NaN(), "it"), Error);
}
