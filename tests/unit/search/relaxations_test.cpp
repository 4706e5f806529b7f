#include "search/relaxations.h"

#include <catch2/catch.hpp>

#include "unit/program/random_graph.h"
#include "unit/search/plan_pricing.h"

using namespace autopar;
using namespace autopar::search;
using Catch::Matchers::WithinRel;

namespace {

/// A graph that is searched on a mesh.
struct Searched {
  const graph::StageGraph stage;
  const cost::CostModel cost;
  const Profile profile{.stage = &stage, .cost = &cost};

  Searched(const graph::Graph& graph, const std::string& mesh) : Searched(graph, model_of(mesh)) {}
  Searched(const graph::Graph& graph, cost::CostModel on)
      : stage(graph::whole_stage(graph)), cost(std::move(on)) {}
  std::span<const Profile> profiles() const { return {&profile, 1}; }
};

}  // namespace

TEST_CASE("no plan of the mesh or a coarser one costs less than without symmetric axes") {
  struct Meshes {
    const char* fine;
    std::vector<const char*> coarser;
  };
  const Meshes meshes[] = {{"2x2", {"4"}},
                           {"2x3", {"6"}},  // which has none
                           {"2x2x2", {"8", "2x4", "4x2"}},
                           {"2x3x2", {"12", "2x6", "6x2"}},
                           {"2x2x2x2", {"16", "4x4", "2x8", "8x2", "2x4x2"}}};
  Random random(31);
  double bounds = 0;
  double costs = 0;
  for (int round = 0; round < 24; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    const auto& [fine, coarser] = meshes[round % std::size(meshes)];
    const Searched searched(graph, fine);
    const SearchOptions options = within("fair");
    CHECK(has_symmetry(searched.profiles(), options) == (std::string(fine) != "2x3"));
    const Relaxation relaxed = relax_symmetry(Stopwatch(), searched.profiles(), options, 1);
    CAPTURE(round, fine);
    for (const char* mesh : coarser) {
      CAPTURE(mesh);
      const SolvedPlan best = search_plan(graph, model_of(mesh), options);
      REQUIRE(best.report.proven_optimal);
      CHECK(relaxed.lower_bound_seconds <= best.plan.predicted.cost_seconds * (1 + 1e-9));
    }
    const SolvedPlan best = search_plan(graph, searched.cost, options);
    CHECK(relaxed.lower_bound_seconds <= best.plan.predicted.cost_seconds * (1 + 1e-9));
    bounds += relaxed.lower_bound_seconds;
    costs += best.plan.predicted.cost_seconds;
  }
  CHECK(bounds > 0.95 * costs);  // a bound, and near
}

TEST_CASE("no plan costs less than the relaxation where reductions go in chains across nodes") {
  const cost::DeviceModel device = cost::load_device_model("h100-cluster");
  Random random(33);
  double bounds = 0;
  double costs = 0;
  for (int round = 0; round < 12; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 4));
    const auto on = [&](std::vector<int> sizes) {
      return cost::CostModel(device, sharding::DeviceMesh(std::move(sizes)));
    };
    // On the last two no axes are symmetric.
    const std::vector<int> meshes[] = {{2, 2, 2, 2}, {4, 2, 2}, {2, 4, 2}, {2, 8}};
    const Searched searched(graph, on(meshes[round % std::size(meshes)]));
    const SearchOptions options = within("fair");
    const Relaxation relaxed = relax_symmetry(Stopwatch(), searched.profiles(), options, 1);
    const SolvedPlan best = search_plan(graph, searched.cost, options);
    REQUIRE(best.report.proven_optimal);
    CAPTURE(round);
    CHECK(relaxed.lower_bound_seconds <= best.plan.predicted.cost_seconds * (1 + 1e-9));
    bounds += relaxed.lower_bound_seconds;
    costs += best.plan.predicted.cost_seconds;
  }
  CHECK(bounds > 0.9 * costs);
}

TEST_CASE("what cannot be built in its time has neither a bound nor a plan") {
  Random random(34);
  const graph::Graph graph = RandomGraph(random).grow(3);
  const Searched searched(graph, "2x2x2");
  SearchOptions options = within("fair");
  const Relaxation relaxed = relax_symmetry(Stopwatch(), searched.profiles(), options, 1);
  REQUIRE(relaxed.forms.size() == 1);
  options.time_limit_seconds = 0;
  const Relaxation none = relax_symmetry(Stopwatch(), searched.profiles(), options, 1);
  CHECK(none.lower_bound_seconds == 0);
  CHECK(none.forms.empty());
  CHECK_FALSE(best_of_forms(Stopwatch(), searched.profiles(), options, 1, relaxed.forms));
}

TEST_CASE("the plan of the relaxation's forms can run and costs what is said") {
  Random random(32);
  double found_seconds = 0;
  double least_seconds = 0;
  int found_plans = 0;
  for (int round = 0; round < 16; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    const Searched searched(graph, round % 2 == 0 ? "2x2x2" : "2x2x2x2");
    const SearchOptions options = within("fair");
    const Relaxation relaxed = relax_symmetry(Stopwatch(), searched.profiles(), options, 1);
    REQUIRE(relaxed.forms.size() == 1);
    const auto found = best_of_forms(Stopwatch(), searched.profiles(), options, 1, relaxed.forms);
    if (!found) continue;  // the relaxation may choose what no strategies of all axes agree on
    ++found_plans;
    const plan::Plan& plan = found->plans.front();
    CAPTURE(round);
    CHECK(can_run(graph, plan));
    CHECK_THAT(plan.predicted.cost_seconds, WithinRel(price_of(graph, searched.cost, plan), 1e-6));
    CHECK(plan.predicted.cost_seconds >= relaxed.lower_bound_seconds * (1 - 1e-9));
    for (std::size_t id = 0; id < graph.nodes.size(); ++id)
      CHECK(canonical(plan.operators[id], searched.cost.symmetric_axes()).inputs ==
            relaxed.forms.front().operators[id].inputs);
    found_seconds += plan.predicted.cost_seconds;
    least_seconds += relaxed.lower_bound_seconds;
  }
  CHECK(found_plans > 12);
  CHECK(found_seconds < 1.1 * least_seconds);
}

TEST_CASE("no plan costs less than with relaxed copies, whose plan mostly is the best") {
  Random random(35);
  int best_plans = 0;
  constexpr int rounds = 24;
  for (int round = 0; round < rounds; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    const Searched searched(graph, round % 2 == 0 ? "2x2x2" : "2x3x2");
    const SearchOptions options = within("fair");
    const Relaxation relaxed = relax_copies(Stopwatch(), searched.profiles(), options, 1, nullptr);
    const SolvedPlan best = search_plan(graph, searched.cost, options);
    const double least = best.plan.predicted.cost_seconds;
    CAPTURE(round);
    CHECK(relaxed.lower_bound_seconds <= least * (1 + 1e-9));
    CHECK(relaxed.lower_bound_seconds >= 0.99 * least);
    REQUIRE(relaxed.forms.size() == 1);
    CHECK(can_run(graph, relaxed.forms.front()));
    const double cost = price_of(graph, searched.cost, relaxed.forms.front());
    CHECK(cost >= relaxed.lower_bound_seconds * (1 - 1e-6));
    best_plans += cost <= least * (1 + 1e-6) ? 1 : 0;
  }
  CHECK(best_plans >= rounds - 2);
  SearchOptions options = within("fair");
  options.time_limit_seconds = 0;
  const Searched searched(RandomGraph(random).grow(3), "2x2x2");
  CHECK(relax_copies(Stopwatch(), searched.profiles(), options, 1, nullptr).forms.empty());
}
