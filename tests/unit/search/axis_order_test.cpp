#include <algorithm>
#include <catch2/catch.hpp>

#include "search/search_plan.h"
#include "unit/program/random_graph.h"
#include "unit/search/plan_pricing.h"

using namespace autopar;
using namespace autopar::search;
using Catch::Matchers::WithinRel;

namespace {

/// A product whose columns are those of two heads: on 4x2 each rank has columns of one head, as its
/// next product wants them, where the axis of two is the first.
graph::Graph two_heads() {
  constexpr std::int64_t size = 4096;
  graph::Graph graph;
  graph.opsets[""] = 18;
  const auto add = [&](const char* name, graph::Shape shape) {
    return graph.add_value({name, graph::DataType::float32, std::move(shape), {}});
  };
  const auto add_weight = [&](const char* name, const graph::Shape& shape) {
    return graph.add_constant(name, graph::Tensor::absent(graph::DataType::float32, shape));
  };
  const auto add_node = [&](const char* op_type, std::vector<graph::ValueId> inputs,
                            graph::ValueId output) -> graph::Node& {
    return graph.nodes.emplace_back(graph::Node{.name = op_type + std::to_string(output),
                                                .op_type = op_type,
                                                .domain = "",
                                                .inputs = std::move(inputs),
                                                .outputs = {output},
                                                .attributes = {}});
  };
  const graph::ValueId x = add("x", {size, size});
  const graph::ValueId w = add_weight("w", {size, size});
  const std::int64_t extents[] = {size, 2, size / 2};
  const graph::ValueId shape = graph.add_constant("shape", graph::Tensor::of_int64({3}, extents));
  const graph::ValueId k = add_weight("k", {2, size / 2, size});
  const graph::ValueId y = add("y", {size, size});
  const graph::ValueId heads = add("heads", {size, 2, size / 2});
  const graph::ValueId by_head = add("by_head", {2, size, size / 2});
  const graph::ValueId z = add("z", {2, size, size});
  add_node("MatMul", {x, w}, y);
  add_node("Reshape", {y, shape}, heads);
  add_node("Transpose", {heads}, by_head).attributes["perm"] = std::vector<std::int64_t>{1, 0, 2};
  add_node("MatMul", {by_head, k}, z);
  graph.inputs = {x};
  graph.outputs = {z};
  return graph;
}

double least_seconds(const graph::Graph& graph, const char* mesh) {
  const SolvedPlan found = search_plan(graph, model_of(mesh), within("fair"));
  CAPTURE(mesh);
  REQUIRE(found.report.proven_optimal);
  CHECK(can_run(graph, found.plan));
  return found.plan.predicted.cost_seconds;
}

}  // namespace

TEST_CASE("where links are alike, plans cost the same however a mesh orders its axes") {
  Random random(17);
  CHECK_THAT(least_seconds(two_heads(), "4x2"), WithinRel(least_seconds(two_heads(), "2x4"), 1e-9));
  for (int round = 0; round < 40; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    CAPTURE(round);
    const double seconds = least_seconds(graph, "2x3");
    CHECK_THAT(seconds, WithinRel(least_seconds(graph, "3x2"), 1e-9));
  }
}

TEST_CASE("a plan has mesh axes that do not ascend where another order costs more") {
  const SolvedPlan found = search_plan(two_heads(), model_of("4x2"), within("fair"));
  const auto descends = [](const std::vector<int>& axes) { return axes == std::vector{1, 0}; };
  CHECK(std::ranges::any_of(found.plan.operators, [&](const sharding::OpShardSpec& spec) {
    return std::ranges::any_of(spec.factor_axes, descends);
  }));
}
