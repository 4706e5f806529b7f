#include "search/search_in_any_order.h"

#include <catch2/catch.hpp>

#include "search/search_by_symmetry.h"
#include "unit/program/random_graph.h"
#include "unit/search/plan_pricing.h"

using namespace autopar;
using namespace autopar::search;
using Catch::Matchers::WithinRel;

namespace {

/// Appends so many operators behind the value; returns what the last one makes.
graph::ValueId append_chain(graph::Graph& graph, graph::ValueId value, int operators) {
  for (int k = 0; k < operators; ++k) {
    const std::string name = "n" + std::to_string(k + 1);
    const graph::ValueId out =
        graph.add_value({"of_" + name, graph::DataType::float32, graph.value(value).shape, {}});
    graph.nodes.push_back({.name = name,
                           .op_type = "Relu",
                           .domain = "",
                           .inputs = {value},
                           .outputs = {out},
                           .attributes = {}});
    value = out;
  }
  return value;
}

graph::Graph chain(int operators) {
  graph::Graph graph;
  graph.opsets[""] = 18;
  graph.inputs = {graph.add_value({"x", graph::DataType::float32, {8, 8}, {}})};
  graph.outputs = {append_chain(graph, graph.inputs[0], operators)};
  return graph;
}

/// A product whose columns are those of two heads: on 4x2 each rank has columns of one head, as its
/// next product wants them, where the axis of two is the first. So many operators follow.
graph::Graph two_heads(int operators = 0) {
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
  graph.outputs = {append_chain(graph, z, operators)};
  return graph;
}

}  // namespace

TEST_CASE("with axes in any order plans cost no more, and no less than the relaxation") {
  Random random(17);
  int cheaper = 0;
  for (int round = 0; round < 25; ++round) {
    const bool is_random = round > 0;
    const graph::Graph graph =
        is_random ? RandomGraph(random).grow(pick(random, 2, 5)) : two_heads();
    const graph::StageGraph stage = graph::whole_stage(graph);
    const char* const meshes[] = {"2x3", "2x2", "2x2x2", "2x3x2"};
    const cost::CostModel cost = model_of(is_random ? meshes[round % std::size(meshes)] : "4x2");
    CAPTURE(round, to_string(cost.mesh()));
    const Profile profile{.stage = &stage, .cost = &cost};
    const SearchOptions options = within("fair");
    const JointPlan whole = search_whole_problem(Stopwatch(), {&profile, 1}, options, nullptr);
    const JointPlan found = search_in_any_order(Stopwatch(), {&profile, 1}, options, nullptr);
    const double seconds = found.predicted.cost_seconds;
    const Relaxation relaxed = relax_symmetry(Stopwatch(), {&profile, 1}, options, 1);
    CHECK(seconds <= whole.predicted.cost_seconds * (1 + 1e-9));
    CHECK(relaxed.lower_bound_seconds <= seconds * (1 + 1e-9));
    CHECK(can_run(graph, found.plans.front()));
    CHECK_THAT(seconds, WithinRel(price_of(graph, cost, found.plans.front()), 1e-6));
    CHECK(found.report.lower_bound_seconds <= seconds);
    if (seconds > whole.predicted.cost_seconds * (1 - 1e-6)) continue;
    ++cheaper;
    // The other bound holds for axes that ascend.
    CHECK(found.report.lower_bound_seconds <= relaxed.lower_bound_seconds * (1 + 1e-9));
  }
  CHECK(cheaper > 0);
}

TEST_CASE("axes come in any order in the plans of many operators on two and three axes") {
  const graph::Graph small = chain(10);
  const graph::Graph large = chain(1000);
  const auto is_worth = [](const graph::Graph& graph, const char* mesh,
                           const SearchOptions& options) {
    const graph::StageGraph stage = graph::whole_stage(graph);
    const cost::CostModel cost = model_of(mesh);
    const Profile profile{.stage = &stage, .cost = &cost};
    return is_worth_any_order({&profile, 1}, options);
  };
  SearchOptions options = within("fair");
  options.time_limit_seconds = 20;
  CHECK(is_worth(large, "2x2", options));
  CHECK(is_worth(large, "2x2x2", options));
  CHECK_FALSE(is_worth(small, "2x2", options));
  CHECK_FALSE(is_worth(large, "4", options));
  CHECK_FALSE(is_worth(large, "2x2x2x2", options));
  SearchOptions pinned = options;
  pinned.pins.emplace_back().name = "n1";
  CHECK_FALSE(is_worth(large, "2x2", pinned));
  SearchOptions quick = options;
  quick.method = SearchMethod::recursive;
  CHECK_FALSE(is_worth(large, "2x2", quick));
  SearchOptions short_of_time = options;
  short_of_time.time_limit_seconds = 1;
  CHECK_FALSE(is_worth(large, "2x2", short_of_time));
}

TEST_CASE("the search of a model of many operators finds a plan with axes in another order") {
  const graph::Graph graph = two_heads(1000);
  const graph::StageGraph stage = graph::whole_stage(graph);
  const cost::CostModel cost = model_of("4x2");
  const Profile profile{.stage = &stage, .cost = &cost};
  const SearchOptions options = within("fair");
  const JointPlan whole = search_whole_problem(Stopwatch(), {&profile, 1}, options, nullptr);
  const JointPlan found = search_plan({&profile, 1}, options);
  CHECK(found.predicted.cost_seconds < whole.predicted.cost_seconds * (1 - 1e-6));
}
