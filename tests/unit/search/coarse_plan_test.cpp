#include "search/coarse_plan.h"

#include <catch2/catch.hpp>

#include "search/search_plan.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using search::AxisRuns;
using sharding::DeviceMesh;

namespace {

/// What a coarse axis splits, all axes of its run split.
std::vector<int> in_fine_axes(const std::vector<int>& axes, const AxisRuns& runs) {
  std::vector<int> fine;
  for (const int axis : axes)
    for (const int each : runs[axis]) fine.push_back(each);
  return fine;
}

}  // namespace

TEST_CASE("a mesh comes from a finer one where runs of its axes multiply up") {
  const auto runs = [](const char* coarse, const char* fine) {
    return search::runs_between(DeviceMesh::parse(coarse), DeviceMesh::parse(fine));
  };
  CHECK(runs("4x8", "2x2x8") == AxisRuns{{0, 1}, {2}});
  CHECK(runs("2x16", "2x2x8") == AxisRuns{{0}, {1, 2}});
  CHECK(runs("32", "2x2x8") == AxisRuns{{0, 1, 2}});
  CHECK(runs("2x2x8", "2x2x8") == AxisRuns{{0}, {1}, {2}});
  CHECK_FALSE(runs("8x4", "2x2x8"));
  CHECK_FALSE(runs("2x8", "2x2x8"));
  CHECK_FALSE(runs("2x2x8", "4x8"));
  CHECK_FALSE(runs("2x6", "3x4"));
  const DeviceMesh fine({2, 2, 8});
  CHECK(search::coarse_mesh(fine, {{0}, {1, 2}}) == DeviceMesh({2, 16}));
}

TEST_CASE("the axes that become one are both within a node, or both lead out of it") {
  cost::DeviceModel device = cost::load_device_model("h100-cluster");
  device.gpus_per_node = 8;
  const auto runs = [&](const char* mesh) {
    return search::with_one_axis_less(cost::CostModel(device, DeviceMesh::parse(mesh)));
  };
  CHECK(runs("2x8") == AxisRuns{{0, 1}});
  CHECK(runs("2x2x8") == AxisRuns{{0, 1}, {2}});
  CHECK(runs("2x2x4") == AxisRuns{{0}, {1, 2}});
  CHECK(runs("2x2x2x4") == AxisRuns{{0, 1}, {2}, {3}});
  CHECK(runs("2x2x2x2x2") == AxisRuns{{0}, {1}, {2}, {3, 4}});
}

TEST_CASE("the axes that become one have the fewest devices") {
  const cost::DeviceModel device = cost::load_device_model("h200");
  const auto runs = [&](const char* mesh) {
    return search::with_one_axis_less(cost::CostModel(device, DeviceMesh::parse(mesh)));
  };
  CHECK(runs("2x2x8") == AxisRuns{{0, 1}, {2}});
  CHECK(runs("2x2x2x8") == AxisRuns{{0}, {1, 2}, {3}});
  CHECK(runs("4x4x4") == AxisRuns{{0}, {1, 2}});
}

TEST_CASE("a plan costs no more on a finer mesh") {
  Random random(3);
  int refined = 0;
  for (int round = 0; round < 40; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 4));
    const cost::DeviceModel device =
        cost::load_device_model(round % 2 == 0 ? "cpu" : "h100-cluster");
    const DeviceMesh fine_mesh = round % 3 == 0 ? DeviceMesh({2, 2, 2}) : DeviceMesh({2, 3});
    const cost::CostModel fine_cost(device, fine_mesh);
    const AxisRuns runs = search::with_one_axis_less(fine_cost);
    const cost::CostModel coarse_cost(device, search::coarse_mesh(fine_mesh, runs));
    CAPTURE(round, to_string(fine_mesh));
    search::SearchOptions options;
    options.memory = search::MemoryPolicy::parse("fair");
    const search::SolvedPlan coarse = search_plan(graph, coarse_cost, options);
    const search::PlanProblem fine = search::build_plan_problem(graph, fine_cost, options);
    const auto choice = search::refined(coarse.built, coarse.choice, runs, fine);
    if (!choice) continue;
    ++refined;
    const plan::Plan plan = search::decode(fine, *choice, fine_cost);
    for (std::size_t n = 0; n < plan.operators.size(); ++n) {
      const auto& factors = coarse.plan.operators[n].factor_axes;
      REQUIRE(plan.operators[n].factor_axes.size() == factors.size());
      for (std::size_t f = 0; f < factors.size(); ++f)
        CHECK(plan.operators[n].factor_axes[f] == in_fine_axes(factors[f], runs));
    }
    for (const auto& [value, spec] : coarse.plan.stored)
      for (std::size_t d = 0; d < spec.dims.size(); ++d)
        CHECK(plan.stored.at(value).dims[d] == in_fine_axes(spec.dims[d], runs));
    // Each node and edge is rounded to picoseconds.
    const auto rounding =
        static_cast<assignment::Cost>(fine.problem.nodes.size() + fine.problem.edges.size());
    CHECK(assignment::cost_of(fine.problem, *choice) <=
          assignment::cost_of(coarse.built.problem, coarse.choice) + rounding);
  }
  CHECK(refined > 30);
}

TEST_CASE("what coarser meshes suggest is a choice within the limits") {
  Random random(8);
  int found = 0;
  for (int round = 0; round < 20; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 4));
    const cost::CostModel cost(cost::load_device_model("cpu"), DeviceMesh({2, 2, 2}));
    const graph::StageGraph stage = graph::whole_stage(graph);
    const search::Profile profile{.stage = &stage, .cost = &cost};
    search::SearchOptions options;
    options.memory = search::MemoryPolicy::parse("fair");
    const search::PlanProblem built = search::build_plan_problem({&profile, 1}, options);
    const auto choice = search::choose_from_coarser(built, {&profile, 1}, options, 10);
    if (!choice) continue;
    ++found;
    CHECK(assignment::within_limits(built.problem, *choice));
    CHECK(assignment::cost_of(built.problem, *choice) < assignment::impossible);
  }
  CHECK(found > 10);
}
