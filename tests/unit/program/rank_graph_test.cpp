#include "program/lowering.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "unit/program/plan_sketch.h"

using namespace autopar;
using namespace autopar::program;
using graph::Graph;
using graph::Node;
using graph::Range;
using graph::Shape;
using Ints = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

namespace {

std::vector<Graph> shards_of(const PlanSketch& sketch) {
  const Program program = lower(sketch.graph, sketch.plan, sketch.cost());
  std::vector<Graph> shards;
  for (int rank = 0; rank < sketch.plan.mesh.num_devices(); ++rank) {
    shards.push_back(rank_graph(program, rank));
    graph::check_invariants(shards.back());
  }
  return shards;
}

const graph::Value& value(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.values, name, &graph::Value::name);
  REQUIRE(found != graph.values.end());
  return *found;
}

const Node& node(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes, name, &Node::name);
  REQUIRE(found != graph.nodes.end());
  return *found;
}

Names node_names(const Graph& graph) {
  Names names;
  for (const Node& each : graph.nodes) names.push_back(each.name);
  return names;
}

Ints constant_ints(const Graph& graph, graph::ValueId id) {
  return graph.value(id).constant->to_int64s();
}

}  // namespace

TEST_CASE("a rank has its columns of a weight as a view of the model's") {
  PlanSketch sketch("3");
  sketch.input("x", {2, 4}, "RR");
  sketch.weight("w", {4, 7}, "RS0");
  sketch.node("MatMul", {"x", "w"}, "y", {2, 7}, "RR,RS0->RS0");
  sketch.output("y");
  const auto shards = shards_of(sketch);
  const Ints widths{3, 3, 1};
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const auto first = static_cast<std::int64_t>(3 * rank);
    const graph::Value& w = value(shards[rank], "w");
    CHECK(w.shape == Shape{4, widths[rank]});
    const std::vector<Range> columns{{0, 4}, {first, first + widths[rank]}};
    CHECK(w.constant->same_view(sketch.graph.value(sketch.id("w")).constant->slice(columns)));
    CHECK(value(shards[rank], "y").shape == Shape{2, widths[rank]});
    CHECK(node_names(shards[rank]) == Names{"y"});
  }
}

TEST_CASE("model inputs and outputs keep their names, other versions tell their spec") {
  PlanSketch sketch("2");
  sketch.input("x", {4, 4}, "S0R");
  sketch.node("Relu", {"x"}, "y", {4, 4}, "RS0->RS0");
  sketch.output("y");
  for (const Graph& shard : shards_of(sketch)) {
    CHECK(shard.value(shard.inputs[0]).name == "x");
    CHECK(shard.value(shard.outputs[0]).name == "y");
    CHECK(value(shard, "x@RS0").shape == Shape{4, 2});
    CHECK(node_names(shard) == Names{"x@RS0/all-to-all", "y"});
    CHECK(shard.opsets == std::map<std::string, std::int64_t>{{"", 20}, {"autopar", 1}});
  }
}

TEST_CASE("names stay unique where the model has taken them already") {
  PlanSketch sketch("2");
  sketch.input("x", {4, 4}, "S0R");
  sketch.input("x@RR", {4, 4}, "RR");
  sketch.input("x@RR/all-gather", {4, 4}, "RR");
  sketch.node("Relu", {"x"}, "y", {4, 4}, "RR->RR");
  sketch.node("Add", {"y", "x@RR"}, "z", {4, 4}, "RR,RR->RR");
  sketch.node("Add", {"z", "x@RR/all-gather"}, "x@RR#1/all-gather", {4, 4}, "RR,RR->RR");
  sketch.output("x@RR#1/all-gather");
  for (const Graph& shard : shards_of(sketch)) {
    CHECK(node_names(shard) == Names{"x@RR#1/all-gather#1", "y", "z", "x@RR#1/all-gather"});
  }
}

TEST_CASE("a slice is ONNX's own, in this rank's coordinates") {
  PlanSketch sketch("2x2");
  sketch.input("x", {7, 3}, "S0R");  // 4 and 3 rows; of these 2, 2 and 2, 1
  sketch.node("Relu", {"x"}, "y", {7, 3}, "S01R->S01R");
  sketch.output("y");
  const auto shards = shards_of(sketch);
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected{{0, 2}, {2, 4}, {0, 2}, {2, 3}};
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    const Node& slice = node(shards[rank], "x@S01R/slice");
    CHECK(slice.op_type == "Slice");
    CHECK(slice.domain.empty());
    CHECK(constant_ints(shards[rank], slice.inputs[1]) == Ints{expected[rank].first});
    CHECK(constant_ints(shards[rank], slice.inputs[2]) == Ints{expected[rank].second});
    CHECK(constant_ints(shards[rank], slice.inputs[3]) == Ints{0});
  }
}

TEST_CASE("collectives tell their group and everyone's extents") {
  PlanSketch sketch("2x2");
  sketch.input("x", {5, 3}, "S1R");
  sketch.weight("w", {3, 6}, "S0R");
  sketch.node("Relu", {"x"}, "a", {5, 3}, "RS1->RS1");
  sketch.node("MatMul", {"a", "w"}, "y", {5, 6}, "RS0,S0R->RS0 reduce-scatter");
  sketch.node("Tanh", {"y"}, "z", {5, 6}, "RR->RR");
  sketch.output("z");
  const Graph shard = shards_of(sketch)[3];
  const auto ints = [](const Node& each, const char* name) {
    return each.ints_attribute(name, {});
  };

  const Node& exchange = node(shard, "x@RS1/all-to-all");
  CHECK(exchange.domain == "autopar");
  CHECK(exchange.op_type == "AllToAll");
  CHECK(ints(exchange, "mesh_axes") == Ints{1});
  CHECK(ints(exchange, "ranks") == Ints{2, 3});
  CHECK(exchange.int_attribute("rank", -1) == 1);
  CHECK(exchange.int_attribute("split_dim", -1) == 1);
  CHECK(exchange.int_attribute("concat_dim", -1) == 0);
  CHECK(ints(exchange, "split_sizes") == Ints{2, 1});
  CHECK(ints(exchange, "concat_sizes") == Ints{3, 2});

  const Node& scatter = node(shard, "y/reduce-scatter");
  CHECK(scatter.op_type == "ReduceScatter");
  CHECK(ints(scatter, "ranks") == Ints{1, 3});
  CHECK(scatter.string_attribute("reduce", "") == "sum");
  CHECK(scatter.int_attribute("dim", -1) == 1);
  CHECK(ints(scatter, "sizes") == Ints{3, 3});
  CHECK(scatter.int_attribute("rank", -1) == 1);

  const Node& gather = node(shard, "y@RR/all-gather");
  CHECK(gather.op_type == "AllGather");
  CHECK(gather.int_attribute("rank", -1) == 1);
  CHECK(ints(gather, "mesh_axes") == Ints{0});
  CHECK(gather.int_attribute("dim", -1) == 1);
  CHECK(ints(gather, "sizes") == Ints{3, 3});
}

TEST_CASE("a maximum is reduced as one") {
  PlanSketch sketch("2");
  sketch.input("x", {4, 3}, "S0R");
  sketch.node("ReduceMax", {"x", "axes"}, "y", {1, 3}, "S0R,R->RR all-reduce", {0});
  sketch.output("y");
  const Graph shard = shards_of(sketch)[1];
  CHECK(node(shard, "y/all-reduce").op_type == "AllReduce");
  CHECK(node(shard, "y/all-reduce").string_attribute("reduce", "") == "max");
  CHECK(value(shard, "y@RR+P0max").shape == Shape{1, 3});
}

TEST_CASE("an operator with a shape input gets this rank's shape, and the global one goes") {
  PlanSketch sketch("2");
  sketch.input("x", {4, 6}, "S0R");
  sketch.node("Reshape", {"x", "shape"}, "y", {4, 2, 3}, "S0R,R->S0RR", {4, 2, 3});
  sketch.output("y");
  for (const Graph& shard : shards_of(sketch)) {
    CHECK(constant_ints(shard, node(shard, "y").inputs[1]) == Ints{2, 2, 3});
    CHECK(std::ranges::find(shard.values, "shape", &graph::Value::name) == shard.values.end());
  }
}

TEST_CASE("a rank that does without a tensor still takes part in what makes it") {
  PlanSketch sketch("3");
  sketch.input("x", {4, 6}, "RS0");
  sketch.weight("w", {6, 5}, "S0R");
  sketch.weight("bias", {5}, "S0");
  sketch.node("Gemm", {"x", "w", "bias"}, "y", {4, 5}, "RS0,S0R,R->RR all-reduce");
  sketch.output("y");
  const auto shards = shards_of(sketch);
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    CHECK(node_names(shards[rank]) == Names{"bias@R/all-gather", "y", "y/all-reduce"});
    CHECK(node(shards[rank], "y").inputs.size() == (rank == 0 ? 3 : 2));
  }
}

TEST_CASE("inputs that nobody reads stay inputs") {
  PlanSketch sketch("2");
  sketch.input("x", {4}, "S0");
  sketch.input("unread", {3}, "S0");
  sketch.node("Relu", {"x"}, "y", {4}, "S0->S0");
  sketch.output("y");
  const Graph shard = shards_of(sketch)[1];
  REQUIRE(shard.inputs.size() == 2);
  CHECK(shard.value(shard.inputs[1]).name == "unread");
  CHECK(shard.value(shard.inputs[1]).shape == Shape{1});
}
