// Propagation and recursion give plans of the same space at the same prices as the exact search.

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/stopwatch.h"
#include "plan_pricing.h"
#include "search/quick_searches.h"
#include "search/search_plan.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using Catch::Matchers::Contains;
using search::MemoryPolicy;
using search::SearchMethod;

namespace {

constexpr double rounding = 1e-10;  // costs are whole picoseconds in the search

search::SearchOptions options_of(SearchMethod method, const std::string& memory) {
  search::SearchOptions options;
  options.method = method;
  options.memory = MemoryPolicy::parse(memory);
  return options;
}

/// x -> x + down gelu up x, `layers` times.
graph::Graph stack(int layers, std::int64_t rows, std::int64_t width, std::int64_t hidden) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_value({name, graph::DataType::float32, shape, std::nullopt});
  };
  auto x = value("x", {rows, width});
  graph.inputs = {x};
  for (int i = 0; i < layers; ++i) {
    const std::string at = std::to_string(i);
    const auto w1 = graph.add_constant(
        "w1." + at, graph::Tensor::zeros(graph::DataType::float32, {width, hidden}));
    const auto w2 = graph.add_constant(
        "w2." + at, graph::Tensor::zeros(graph::DataType::float32, {hidden, width}));
    const auto a = value("a" + at, {rows, hidden});
    const auto b = value("b" + at, {rows, hidden});
    const auto c = value("c" + at, {rows, width});
    const auto y = value("y" + at, {rows, width});
    graph.nodes.push_back({"up" + at, "MatMul", "", {x, w1}, {a}, {}});
    graph.nodes.push_back({"gelu" + at, "Gelu", "", {a}, {b}, {}});
    graph.nodes.push_back({"down" + at, "MatMul", "", {b, w2}, {c}, {}});
    graph.nodes.push_back({"add" + at, "Add", "", {c, x}, {y}, {}});
    x = y;
  }
  graph.outputs = {x};
  return graph;
}

std::vector<sharding::TensorShardSpec> specs(const std::vector<std::string>& texts) {
  std::vector<sharding::TensorShardSpec> result;
  for (const auto& text : texts) result.push_back(sharding::TensorShardSpec::parse(text));
  return result;
}

}  // namespace

TEST_CASE("quick searches' plans cost what they say, no less than the optimum, and keep limits") {
  Random random(11);
  int compared = 0;
  int near = 0;  // plans of recursion within 1.2 times the optimum
  for (int round = 0; round < 60; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 6));
    const std::string mesh = any_of<std::string>(random, {"2", "3", "4", "2x2"});
    const cost::CostModel cost = model_of(mesh);
    const std::string memory = any_of<std::string>(random, {"fair", "device"});
    const search::SolvedPlan best_found =
        search_plan(graph, cost, options_of(SearchMethod::ilp, memory));
    const auto& best = best_found.plan;
    const search::SearchReport& best_report = best_found.report;
    for (const SearchMethod method : {SearchMethod::propagation, SearchMethod::recursive}) {
      CAPTURE(round, mesh, memory, name_of(method));
      search::SearchOptions options = options_of(method, memory);
      const search::SolvedPlan plan_found = search_plan(graph, cost, options);
      const auto& plan = plan_found.plan;
      const search::SearchReport& plan_report = plan_found.report;
      CHECK(plan_report.method == method);
      CHECK(price_of(graph, cost, plan) == Approx(plan.predicted.cost_seconds).margin(rounding));
      CHECK(plan_report.lower_bound_seconds <= plan.predicted.cost_seconds + rounding);
      CHECK_FALSE(plan_report.bound_is_searched);
      if (!best_report.proven_optimal) continue;
      CHECK(plan.predicted.cost_seconds >= best.predicted.cost_seconds - rounding);
      CHECK(plan_report.lower_bound_seconds <= best.predicted.cost_seconds + rounding);
      if (method == SearchMethod::recursive) {
        near += plan.predicted.cost_seconds <= 1.2 * best.predicted.cost_seconds ? 1 : 0;
      }
      options.bound = true;
      const auto [with_bound, bounded, built, choice] = search_plan(graph, cost, options);
      CHECK(bounded.bound_is_searched);
      CHECK(bounded.lower_bound_seconds == Approx(best.predicted.cost_seconds).margin(rounding));
      CHECK(bounded.proven_optimal ==
            (with_bound.predicted.cost_seconds == bounded.lower_bound_seconds));
      ++compared;
    }
  }
  CHECK(compared > 100);
  CHECK(near >= compared / 2 * 19 / 20);
}

TEST_CASE("propagation keeps pins and follows them without resharding") {
  const graph::Graph graph = stack(3, 256, 64, 128);
  const cost::CostModel cost = model_of("4");
  for (const auto& [text, follower] :
       std::vector<std::pair<std::string, std::string>>{{"RS0", "RS0"}, {"S0R", "S0R"}}) {
    search::SearchOptions options = options_of(SearchMethod::propagation, "device");
    options.pins = {{"up1", {}, specs({text}), {}}};
    const plan::Plan plan = search_plan(graph, cost, options).plan;
    CHECK(plan.operators[4].outputs == specs({text}));
    CHECK(plan.operators[5].outputs == specs({follower}));
    CHECK(plan.operators[6].inputs.front() == specs({follower}).front());
  }
}

TEST_CASE("propagation starts from the heaviest operator where nothing is pinned") {
  graph::Graph graph = stack(2, 256, 64, 128);
  const cost::CostModel cost = model_of("4");
  const auto built = build_plan_problem(graph, cost, options_of(SearchMethod::propagation, "fair"));
  const graph::Node& heaviest = graph.node(search::heaviest_first(built).front());
  CHECK(heaviest.op_type == "MatMul");
  const plan::Plan plan =
      search_plan(graph, cost, options_of(SearchMethod::propagation, "fair")).plan;
  CHECK(plan.predicted.weight_bytes <= 2 * 2 * 64 * 128 * 4 * 5 / 4 / 4);
}

TEST_CASE("quick searches repair what exceeds a limit in bytes, or refuse as the ILP does") {
  const graph::Graph graph = stack(2, 256, 64, 128);
  const cost::CostModel cost = model_of("4");
  for (const SearchMethod method : {SearchMethod::propagation, SearchMethod::recursive}) {
    CAPTURE(name_of(method));
    search::SearchOptions options = options_of(method, "device");
    int feasible = 0;
    std::string refusal;
    for (std::int64_t limit = 600'000; limit > 60'000; limit -= 20'000) {
      CAPTURE(limit);
      options.memory = {MemoryPolicy::Kind::bytes, limit};
      try {
        const plan::Plan plan = search_plan(graph, cost, options).plan;
        CHECK(plan.predicted.peak_bytes <= limit);
        ++feasible;
        CHECK(refusal.empty());
      } catch (const Error& error) {
        refusal = error.what();
      }
    }
    CHECK(feasible > 5);
    CHECK_THAT(refusal, Contains("smallest known to do is"));
  }
}

TEST_CASE("GLPK without presolve agrees") {
  const cost::CostModel cost = model_of("2x2");
  const graph::Graph graph = stack(2, 128, 48, 96);
  search::SearchOptions options = options_of(SearchMethod::ilp, "fair");
  const search::SolvedPlan with = search_plan(graph, cost, options);
  options.presolve = false;
  const search::SolvedPlan without = search_plan(graph, cost, options);
  REQUIRE(with.report.proven_optimal);
  REQUIRE(without.report.proven_optimal);
  CHECK(with.plan.predicted.cost_seconds == without.plan.predicted.cost_seconds);
}
