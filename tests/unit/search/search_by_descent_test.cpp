#include "search/search_by_descent.h"

#include <catch2/catch.hpp>
#include <set>

#include "program/memory_prediction.h"
#include "program/pipeline_program.h"
#include "search/coarse_plan.h"
#include "search/descent_steps.h"
#include "search/first_plans.h"
#include "search/relaxations.h"
#include "unit/program/random_graph.h"
#include "unit/search/plan_pricing.h"

using namespace autopar;
using Catch::Matchers::WithinRel;

namespace {

search::JointPlan descend_on(const graph::Graph& graph, const cost::CostModel& cost,
                             const search::SearchOptions& options) {
  const graph::StageGraph stage = graph::whole_stage(graph);
  const search::Profile profile{.stage = &stage, .cost = &cost};
  return search_by_descent(Stopwatch(), {&profile, 1}, options, nullptr);
}

search::JointPlan solve_whole_on(const graph::Graph& graph, const cost::CostModel& cost,
                                 const search::SearchOptions& options) {
  const graph::StageGraph stage = graph::whole_stage(graph);
  const search::Profile profile{.stage = &stage, .cost = &cost};
  return search_whole_problem(Stopwatch(), {&profile, 1}, options, nullptr);
}

bool is_too_large(const graph::Graph& graph, const cost::CostModel& cost,
                  const search::SearchOptions& options) {
  const graph::StageGraph stage = graph::whole_stage(graph);
  const search::Profile profile{.stage = &stage, .cost = &cost};
  return is_too_large_to_build({&profile, 1}, options);
}

}  // namespace

TEST_CASE("where all strategies' plan does not fit after all, one that does is looked for") {
  Random random(18);
  int misfits = 0;
  for (int round = 0; round < 30; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    const cost::CostModel cost = model_of("2x2x2");
    const graph::StageGraph stage = graph::whole_stage(graph);
    const search::Profile profile{.stage = &stage, .cost = &cost};
    const std::span<const search::Profile> profiles(&profile, 1);
    // Weights never fill the memory, but shards with more of them than the plan to begin with
    // need much more beside.
    const std::int64_t whole = graph::constant_bytes(graph);
    search::SearchOptions options = within(std::to_string(4 * whole));
    std::int64_t most = whole;
    options.run_bytes = [&](const graph::Graph& shard, int) {
      const std::int64_t own = graph::constant_bytes(shard);
      return own > most ? own + 4 * whole - most : own;
    };
    search::SearchOptions tight = options;
    tight.memory = within("fair").memory;
    const auto start = plan_on_one_axis(profiles, tight);
    if (!start) continue;
    most = start->predicted.peak_bytes;
    search::SearchOptions unpredicted = options;
    unpredicted.run_bytes = nullptr;
    const auto plan_of = [&](const search::SearchOptions& relaxing) {
      const auto relaxed = relax_copies(Stopwatch(), profiles, relaxing, 1, &*start);
      return relaxed.forms.empty() ? std::nullopt
                                   : plan_with(Stopwatch(), profiles, options, relaxed.forms);
    };
    misfits += plan_of(unpredicted) ? 0 : 1;
    const auto fitting = plan_of(options);
    const search::JointPlan found = search_by_descent(Stopwatch(), profiles, options, &*start);
    CAPTURE(round);
    CHECK(found.predicted.peak_bytes <= 4 * whole);
    CHECK(found.predicted.cost_seconds <= start->predicted.cost_seconds);
    if (fitting)
      CHECK(found.predicted.cost_seconds <= fitting->predicted.cost_seconds * (1 + 1e-9));
  }
  CHECK(misfits > 3);
}

TEST_CASE("a plan found by descent can run, costs what is said, and is near the best one") {
  Random random(12);
  double all_found = 0;
  double all_least = 0;
  for (int round = 0; round < 25; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 5));
    const cost::CostModel cost = model_of(round % 2 == 0 ? "2x2x2" : "2x3x2");
    CAPTURE(round, to_string(cost.mesh()));
    const search::JointPlan found = descend_on(graph, cost, within("fair"));
    const search::JointPlan best = solve_whole_on(graph, cost, within("fair"));
    const plan::Plan& plan = found.plans.front();
    REQUIRE(best.report.proven_optimal);
    CHECK(plan.mesh == cost.mesh());
    CHECK(can_run(graph, plan));
    CHECK_THAT(plan.predicted.cost_seconds, WithinRel(price_of(graph, cost, plan), 1e-6));
    const double least = best.predicted.cost_seconds;
    CHECK(plan.predicted.cost_seconds >= least * (1 - 1e-9));
    CHECK(found.report.lower_bound_seconds <= plan.predicted.cost_seconds);
    CHECK(found.report.lower_bound_seconds <= least * (1 + 1e-9));
    all_found += plan.predicted.cost_seconds;
    all_least += least;
  }
  CHECK(all_found < 1.02 * all_least);
}

TEST_CASE(
    "on three axes the search ends at the best plan, or no further above its bound than told") {
  Random random(23);
  int proven = 0;
  for (int round = 0; round < 30; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 6));
    const cost::CostModel cost = model_of(round % 2 == 0 ? "2x2x2" : "2x3x2");
    CAPTURE(round, to_string(cost.mesh()));
    const search::SolvedPlan found = search_plan(graph, cost, within("fair"));
    const search::JointPlan best = solve_whole_on(graph, cost, within("fair"));
    REQUIRE(best.report.proven_optimal);
    const double least = best.predicted.cost_seconds;
    const double seconds = found.plan.predicted.cost_seconds;
    CHECK(found.report.lower_bound_seconds <= least * (1 + 1e-9));
    CHECK(seconds <= found.report.lower_bound_seconds * 1.001);
    if (!found.report.proven_optimal) continue;
    CHECK_THAT(seconds, WithinRel(least, 1e-9));
    ++proven;
  }
  CHECK(proven > 20);
}

TEST_CASE("a plan on two axes that descent begins with takes no bound from it") {
  Random random(24);
  for (int round = 0; round < 10; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    const graph::StageGraph stage = graph::whole_stage(graph);
    const cost::CostModel two_axes = model_of("2x4");
    const cost::CostModel three_axes = model_of("2x2x2");
    const search::Profile coarse{.stage = &stage, .cost = &two_axes};
    const search::Profile fine{.stage = &stage, .cost = &three_axes};
    const search::JointPlan start = search_plan({&coarse, 1}, within("fair"));
    const search::JointPlan found =
        search_by_descent(Stopwatch(), {&fine, 1}, within("fair"), &start);
    CHECK(found.report.bound_is_searched);
    CHECK(found.predicted.cost_seconds <= start.predicted.cost_seconds * (1 + 1e-9));
    const double least = solve_whole_on(graph, three_axes, within("fair")).predicted.cost_seconds;
    CHECK(found.report.lower_bound_seconds <= least * (1 + 1e-9));
  }
}

TEST_CASE("a plan of steps is told among all strategies, at the same cost") {
  Random random(26);
  for (int round = 0; round < 10; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    const graph::StageGraph stage = graph::whole_stage(graph);
    const cost::CostModel cost = model_of("2x2x2");
    const search::Profile profile{.stage = &stage, .cost = &cost};
    const search::JointPlan found =
        search_by_descent(Stopwatch(), {&profile, 1}, within("fair"), nullptr);
    const search::JointPlan all = with_all_strategies({&profile, 1}, within("fair"), found);
    CHECK(assignment::cost_of(all.built.problem, all.choice) ==
          assignment::cost_of(found.built.problem, found.choice));
    CHECK(decode(all.built, all.choice, cost).operators == found.plans.front().operators);
    for (std::size_t id = 0; id < graph.nodes.size(); ++id)
      if (const auto rule = sharding::sharding_rule(graph, graph.nodes[id]))
        CHECK(
            all.built.operators[id]->choices.size() >=
            sharding::enumerate_op_shard_specs(graph, graph.nodes[id], *rule, cost.mesh()).size());
  }
}

TEST_CASE("on three axes the least memory is told where nothing fits") {
  Random random(25);
  const graph::Graph graph = RandomGraph(random).grow(4);
  const cost::CostModel cost = model_of("2x2x2");
  const auto least_bytes = [](const auto& search) -> std::int64_t {
    try {
      search();
    } catch (const search::NothingFits& error) {
      CHECK(error.is_proven);
      return error.least_bytes;
    }
    return 0;
  };
  const std::int64_t least = least_bytes([&] { search_plan(graph, cost, within("1B")); });
  CHECK(least > 1);
  CHECK(least == least_bytes([&] { solve_whole_on(graph, cost, within("1B")); }));
}

TEST_CASE("no plan that uses two axes otherwise is cheaper than the last one of descent") {
  Random random(19);
  for (int round = 0; round < 60; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 6, 12));
    const graph::StageGraph stage = graph::whole_stage(graph);
    const cost::CostModel cost = model_of("2x3x2");
    const search::Profile profile{.stage = &stage, .cost = &cost};
    auto start = search::plan_on_one_axis({&profile, 1}, within("fair"));
    REQUIRE(start);
    const search::JointPlan found =
        search::descend(Stopwatch(), {&profile, 1}, within("fair"), *std::move(start));
    for (const std::vector<int>& axes : {std::vector{0, 1}, {0, 2}, {1, 2}}) {
      const search::Profile near{.stage = &stage,
                                 .cost = &cost,
                                 .near = {.plan = &found.plans.front(), .free_axes = axes}};
      const search::JointPlan other = search_plan({&near, 1}, within("fair"));
      CAPTURE(round, axes.front(), axes.back());
      CHECK(other.predicted.cost_seconds >= found.predicted.cost_seconds * (1 - 1e-4));
    }
  }
}

TEST_CASE("a plan of given strategies is priced as they are") {
  Random random(27);
  for (int round = 0; round < 15; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    const graph::StageGraph stage = graph::whole_stage(graph);
    const cost::CostModel cost = model_of("2x3x2");
    const search::Profile profile{.stage = &stage, .cost = &cost};
    const search::JointPlan best = search_plan({&profile, 1}, within("fair"));
    const auto again =
        search::plan_with(Stopwatch(), {&profile, 1}, within("fair"), {best.plans.front()});
    CAPTURE(round);
    REQUIRE(again);
    CHECK(again->plans.front().operators == best.plans.front().operators);
    CHECK_THAT(again->predicted.cost_seconds,
               WithinRel(price_of(graph, cost, best.plans.front()), 1e-6));
  }
}

TEST_CASE("a plan found by descent has the peak of its shards, however steps count memory") {
  Random random(14);
  for (int round = 0; round < 4; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 5));
    const graph::StageGraph stage = graph::whole_stage(graph);
    const cost::CostModel cost = model_of("2x2x2");
    search::SearchOptions options = within("fair");
    options.warns = false;
    options.run_bytes = program::most_run_bytes;
    const search::JointPlan found = descend_on(graph, cost, options);
    const plan::Plan& plan = found.plans.front();
    CHECK(plan.mesh == cost.mesh());
    CHECK(can_run(graph, plan));
    CHECK_THAT(plan.predicted.cost_seconds, WithinRel(price_of(graph, cost, plan), 1e-6));
    const std::int64_t peak =
        program::predict_peak_bytes(stage, plan, cost.device(), 1, options.run_bytes);
    CHECK(plan.predicted.peak_bytes == peak);
    CHECK(found.predicted.peak_bytes == peak);

    // What steps found is dropped where its shards do not fit.
    std::set<std::int64_t> known;
    options.run_bytes = [&](const graph::Graph& shard, int microbatches) {
      const std::int64_t bytes = program::most_run_bytes(shard, microbatches);
      return known.contains(bytes) ? bytes : cost.device().memory_bytes;
    };
    const auto coarse_model = model_of("2x4");
    search::SearchOptions of_coarse = options;
    of_coarse.run_bytes = [&](const graph::Graph& shard, int microbatches) {
      const std::int64_t bytes = program::most_run_bytes(shard, microbatches);
      known.insert(bytes);
      return bytes;
    };
    const search::Profile on_coarse{.stage = &stage, .cost = &coarse_model};
    const search::JointPlan coarse = search_plan({&on_coarse, 1}, of_coarse);
    const search::Profile profile{.stage = &stage, .cost = &cost};
    const search::JointPlan kept = search_by_descent(Stopwatch(), {&profile, 1}, options, &coarse);
    CHECK(kept.predicted.peak_bytes < cost.device().memory_bytes);
    CHECK(kept.predicted.cost_seconds <= coarse.predicted.cost_seconds);
  }
}

TEST_CASE("a plan found by descent costs no more than on the coarser mesh") {
  Random random(5);
  for (int round = 0; round < 10; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    const search::SolvedPlan coarse = search_plan(graph, model_of("2x2x4"), within("fair"));
    const search::JointPlan found = descend_on(graph, model_of("2x2x2x2"), within("fair"));
    CHECK(found.predicted.cost_seconds <= coarse.plan.predicted.cost_seconds * (1 + 1e-6));
  }
}

TEST_CASE("on seven axes the plan found by descent is one of a coarser mesh") {
  Random random(6);
  const graph::Graph graph = RandomGraph(random).grow(3);
  search::SearchOptions options = within("fair");
  options.warns = false;
  const search::JointPlan found = descend_on(graph, model_of("2x2x2x2x2x2x2"), options);
  CHECK(found.plans.front().mesh.num_axes() == 6);
  CHECK(found.plans.front().mesh.num_devices() == 128);
}

TEST_CASE("where nothing else fits in time the plan is the recursive one on one axis") {
  Random random(8);
  for (int round = 0; round < 5; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 3, 6));
    const graph::StageGraph stage = graph::whole_stage(graph);
    const cost::CostModel cost = model_of("2x2x2x2");
    const search::Profile profile{.stage = &stage, .cost = &cost};
    search::SearchOptions options = within("fair");
    options.warns = false;
    std::set<std::int64_t> known;
    options.run_bytes = [&](const graph::Graph& shard, int microbatches) {
      const std::int64_t bytes = program::most_run_bytes(shard, microbatches);
      known.insert(bytes);
      return bytes;
    };
    const auto on_one_axis = search::plan_on_one_axis({&profile, 1}, options);
    REQUIRE(on_one_axis);
    CHECK(on_one_axis->plans.front().mesh.num_axes() == 1);
    // Shards of other sizes do not fit.
    options.run_bytes = [&](const graph::Graph& shard, int microbatches) {
      const std::int64_t bytes = program::most_run_bytes(shard, microbatches);
      return known.contains(bytes) ? bytes : cost.device().memory_bytes;
    };
    options.time_limit_seconds = 0;
    const search::JointPlan found = descend_on(graph, cost, options);
    CHECK(found.predicted.cost_seconds <= on_one_axis->predicted.cost_seconds);
    CHECK(found.report.lower_bound_seconds <= found.predicted.cost_seconds);
    CHECK_FALSE(search::plan_on_one_axis({&profile, 1}, within("1B")));
  }
}

TEST_CASE("quick methods leave meshes whose problems are too large to coarser ones") {
  Random random(9);
  const graph::Graph graph = RandomGraph(random).grow(5);
  for (const auto method : {search::SearchMethod::recursive, search::SearchMethod::propagation}) {
    search::SearchOptions options = within("fair");
    options.warns = false;
    options.method = method;
    const search::SolvedPlan fine = search_plan(graph, model_of("2x2x2"), options);
    CHECK(fine.plan.mesh.num_axes() == 3);
    options.time_limit_seconds = 1e-9;
    options.bound = true;
    const search::SolvedPlan coarse = search_plan(graph, model_of("2x2x2"), options);
    CHECK(coarse.plan.mesh.num_axes() == 2);
    CHECK(coarse.plan.mesh.num_devices() == 8);
    CHECK(can_run(graph, coarse.plan));
    CHECK(coarse.report.method == method);
    // The bound is one of the mesh that was asked for, not of the coarser one.
    const search::SolvedPlan best = search_plan(graph, model_of("2x2x2"), within("fair"));
    CHECK(coarse.report.lower_bound_seconds <= best.plan.predicted.cost_seconds * (1 + 1e-9));
  }
}

TEST_CASE("a problem is too large where building it takes much of the time limit") {
  Random random(7);
  const graph::Graph graph = RandomGraph(random).grow(4);
  search::SearchOptions options = within("fair");
  CHECK_FALSE(is_too_large(graph, model_of("2x2x2"), options));
  options.time_limit_seconds = 1e-9;
  CHECK(is_too_large(graph, model_of("2x2x2"), options));
  CHECK(is_too_large(graph, model_of("2x2x2x2x2"), options));
  CHECK_FALSE(is_too_large(graph, model_of("2x4"), options));
  options.pins.emplace_back().name = graph.nodes.front().name;
  CHECK_FALSE(is_too_large(graph, model_of("2x2x2"), options));
}
