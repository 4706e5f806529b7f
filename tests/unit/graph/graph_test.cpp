#include "graph/graph.h"

#include <catch2/catch.hpp>

using namespace autopar;
using namespace autopar::graph;

namespace {

/// x -> Relu -> y -> Relu -> z, with a weight that nothing reads.
Graph chain() {
  Graph graph;
  const ValueId x = graph.add_value({"x", DataType::float32, {2}, {}});
  const ValueId y = graph.add_value({"y", DataType::float32, {2}, {}});
  const ValueId z = graph.add_value({"z", DataType::float32, {2}, {}});
  graph.nodes = {{"a", "Relu", "", {x}, {y}, {}}, {"b", "Relu", "", {y}, {z}, {}}};
  graph.inputs = {x};
  graph.outputs = {z};
  return graph;
}

}  // namespace

TEST_CASE("attributes have defaults and refuse another type") {
  Node node{"n", "Gather", "com.example", {}, {}, {{"axis", std::int64_t{3}}, {"scale", 0.5F}}};
  CHECK(node.int_attribute("axis", 0) == 3);
  CHECK(node.int_attribute("batch", 7) == 7);
  CHECK(node.float_attribute("scale", 1) == 0.5F);
  CHECK_THROWS_WITH(node.string_attribute("axis", ""),
                    "attribute 'axis' of com.example::Gather node 'n' must be a string");
}

TEST_CASE("a constant whose name is taken gets a suffix") {
  Graph graph = chain();
  const ValueId first = graph.add_constant("x", Tensor::of_float({}, std::vector{1.0F}));
  const ValueId second = graph.add_constant("x", Tensor::of_float({}, std::vector{1.0F}));
  CHECK(graph.value(first).name == "x_1");
  CHECK(graph.value(second).name == "x_2");
  CHECK(graph.is_constant(first));
  CHECK_FALSE(graph.is_constant(no_value));
}

TEST_CASE("after dead values are dropped, their names are free and later ones are taken") {
  Graph graph = chain();
  graph.add_constant("w", Tensor::of_float({}, std::vector{1.0F}));
  remove_dead_nodes(graph);
  graph.add_value({"late", DataType::float32, {2}, {}});
  const auto added = [&](const char* wanted) {
    return graph.value(graph.add_constant(wanted, Tensor::of_float({}, std::vector{1.0F}))).name;
  };
  CHECK(added("late") == "late_1");
  CHECK(added("w") == "w");
}

TEST_CASE("producers and consumers are each other's inverse") {
  const Graph graph = chain();
  CHECK(producers(graph) == std::vector<NodeId>{no_node, 0, 1});
  CHECK(consumers(graph) == std::vector<std::vector<NodeId>>{{0}, {1}, {}});
}

TEST_CASE("tied weights count once and indices not at all") {
  Graph graph = chain();
  const Tensor weight = Tensor::of_float({4}, std::vector<float>(4));
  graph.add_constant("embedding", weight);
  graph.add_constant("head", weight);
  graph.add_constant("equal but apart", weight.contiguous_copy());
  graph.add_constant("absent", Tensor::absent(DataType::bfloat16, {4}));
  graph.add_constant("quantised", Tensor::zeros(DataType::int8, {3}));
  graph.add_constant("indices", Tensor::of_int64({2}, std::vector<std::int64_t>{0, 1}));
  CHECK(weight_bytes(graph) == 16 + 16 + 8 + 3);
}

TEST_CASE("dead nodes and values go, inputs and nodes without outputs stay") {
  Graph graph = chain();
  const ValueId unused = graph.add_value({"unused", DataType::float32, {1}, {}});
  const ValueId dead = graph.add_value({"dead", DataType::float32, {2}, {}});
  graph.add_constant("lonely", Tensor::of_float({}, std::vector{1.0F}));
  const ValueId sent = graph.add_value({"sent", DataType::float32, {2}, {}});
  graph.inputs.push_back(unused);
  graph.nodes.push_back({"c", "Relu", "", {2}, {dead}, {}});
  graph.nodes.push_back({"d", "Relu", "", {1}, {sent}, {}});
  graph.nodes.push_back({"e", "Send", collective_domain, {sent}, {}, {}});
  remove_dead_nodes(graph);
  check_invariants(graph);
  std::vector<std::string> names;
  for (const Value& value : graph.values) names.push_back(value.name);
  CHECK(names == std::vector<std::string>{"x", "y", "z", "unused", "sent"});
  CHECK(graph.nodes.size() == 4);
  CHECK(graph.value(graph.nodes.back().inputs[0]).name == "sent");
}

TEST_CASE("broken graphs do not pass the check") {
  CHECK_NOTHROW(check_invariants(chain()));
  Graph reversed = chain();
  std::swap(reversed.nodes[0], reversed.nodes[1]);
  CHECK_THROWS_AS(check_invariants(reversed), InternalError);
  Graph twins = chain();
  twins.nodes[1].name = twins.nodes[0].name;
  CHECK_THROWS_AS(check_invariants(twins), InternalError);
  Graph twice = chain();
  twice.nodes[1].outputs = {1};
  CHECK_THROWS_AS(check_invariants(twice), InternalError);
  Graph dynamic = chain();
  dynamic.values[1].shape = {-1};
  CHECK_THROWS_AS(check_invariants(dynamic), InternalError);
  Graph mistyped = chain();
  mistyped.values[0].constant = Tensor::of_int64({2}, std::vector<std::int64_t>{0, 1});
  CHECK_THROWS_AS(check_invariants(mistyped), InternalError);
}
