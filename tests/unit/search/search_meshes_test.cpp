#include "search/search_meshes.h"
#include "search/logical_meshes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "search/operator_bound.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using Catch::Matchers::Contains;

namespace {

std::vector<cost::CostModel> all_meshes(int devices, const cost::DeviceModel& device) {
  std::vector<cost::CostModel> models;
  for (const auto& mesh : search::logical_meshes(devices, device.gpus_per_node)) {
    models.emplace_back(device, mesh);
  }
  return models;
}

/// y = x w, a weight that is worth splitting.
graph::Graph product(std::int64_t rows) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto x = graph.add_value({"x", graph::DataType::float32, {rows, 64}, std::nullopt});
  const auto y = graph.add_value({"y", graph::DataType::float32, {rows, 128}, std::nullopt});
  const auto w = graph.add_constant("w", graph::Tensor::zeros(graph::DataType::float32, {64, 128}));
  graph.nodes = {{"product", "MatMul", "", {x, w}, {y}, {}}};
  graph.inputs = {x};
  graph.outputs = {y};
  return graph;
}

search::SearchOptions within(const std::string& memory) {
  search::SearchOptions options;
  options.memory = search::MemoryPolicy::parse(memory);
  return options;
}

const search::MeshTrial& trial_of(const search::SearchReport& report,
                                  const sharding::DeviceMesh& mesh) {
  const auto& trials = report.meshes;
  const auto found = std::ranges::find(trials, mesh, &search::MeshTrial::mesh);
  REQUIRE(found != trials.end());
  return *found;
}

}  // namespace

TEST_CASE("the plan over all meshes is the cheapest of the meshes' own plans") {
  Random random(5);
  for (int round = 0; round < 25; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 4));
    const auto meshes =
        all_meshes(pick(random, 0, 1) ? 4 : 6, cost::load_device_model(round % 2 ? "h200" : "cpu"));
    CAPTURE(round);
    const search::SolvedPlan best_found = search_meshes(graph, meshes, within("fair"));
    const auto& best = best_found.plan;
    const search::SearchReport& best_report = best_found.report;
    double least = std::numeric_limits<double>::infinity();
    for (const cost::CostModel& cost : meshes) {
      const plan::Plan plan = search_plan(graph, cost, within("fair")).plan;
      const search::MeshTrial& trial = trial_of(best_report, cost.mesh());
      if (trial.cost_seconds) {
        CHECK(*trial.cost_seconds == plan.predicted.cost_seconds);
        CHECK(trial.lower_bound_seconds <= plan.predicted.cost_seconds);
      } else {
        CHECK(best.predicted.cost_seconds <= plan.predicted.cost_seconds);
      }
      // Where plans are equal, the mesh of fewest axes has it.
      if (plan.predicted.cost_seconds <= best.predicted.cost_seconds) {
        CHECK(cost.mesh().num_axes() >= best.mesh.num_axes());
      }
      least = std::min(least, plan.predicted.cost_seconds);
    }
    CHECK(best.predicted.cost_seconds == least);
    CHECK(best_report.proven_optimal);
    CHECK(best_report.lower_bound_seconds == least);
    CHECK(best_report.meshes.size() == meshes.size());
  }
}

TEST_CASE("no plan on any mesh takes less than the operators' shares of arithmetic and bytes") {
  Random random(6);
  // As measured: smaller products are slower, and what stays in a cache is faster.
  cost::DeviceModel by_size = cost::load_device_model("h200");
  by_size.flops_per_second = {
      {graph::DataType::float32, cost::SizedRate({{100, 1e7}, {1e4, 1e9}})}};
  by_size.memory_bytes_per_second = cost::SizedRate({{50, 1e9}, {200, 5e8}, {1e4, 2e7}});
  by_size.element_seconds = {{"Softmax", 1e-7}, {"Add", 1e-8}, {"Relu", 1e-8}};
  for (int round = 0; round < 40; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 6));
    const cost::DeviceModel device = round % 2 == 0 ? cost::load_device_model("h200") : by_size;
    CAPTURE(round);
    for (const char* mesh : {"1", "3", "4", "2x2"}) {
      const cost::CostModel cost(device, sharding::DeviceMesh::parse(mesh));
      const double bound =
          search::least_seconds_on(cost.mesh().num_devices(), graph, cost.device());
      const plan::Plan plan = search_plan(graph, cost, within("device")).plan;
      const double rounding = 1e-12 * static_cast<double>(graph.nodes.size());
      CHECK(bound <= plan.predicted.cost_seconds + rounding);
      if (cost.mesh().num_devices() == 1) {
        CHECK(bound == Approx(plan.predicted.cost_seconds).margin(rounding));
      }
    }
  }
}

TEST_CASE("a mesh that there was no time for keeps an optimum from being proven") {
  const graph::Graph graph = product(512);
  search::SearchOptions options = within("fair");
  options.time_limit_seconds = 0;
  const auto meshes = all_meshes(4, cost::load_device_model("h200"));
  const search::SolvedPlan plan_found = search_meshes(graph, meshes, options);
  const auto& plan = plan_found.plan;
  const search::SearchReport& plan_report = plan_found.report;
  CHECK(plan.mesh == sharding::DeviceMesh({4}));
  const search::MeshTrial& left_out = trial_of(plan_report, sharding::DeviceMesh({2, 2}));
  CHECK_FALSE(left_out.cost_seconds);
  CHECK(left_out.refusal.empty());
  CHECK_FALSE(plan_report.proven_optimal);
  CHECK(plan_report.lower_bound_seconds <= left_out.lower_bound_seconds);
  CHECK(plan_report.lower_bound_seconds > 0);
}

TEST_CASE("without time the plan over many meshes is no worse than the recursive one") {
  Random random(7);
  for (int round = 0; round < 5; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 3, 6));
    const cost::DeviceModel device = cost::load_device_model("h200");
    const auto meshes = all_meshes(16, device);
    search::SearchOptions options = within("fair");
    options.method = search::SearchMethod::recursive;
    const search::SolvedPlan quick = search_plan(graph, meshes.front(), options);
    options.method = search::SearchMethod::ilp;
    options.time_limit_seconds = 0;
    const search::SolvedPlan found = search_meshes(graph, meshes, options);
    CHECK(found.plan.predicted.cost_seconds <= quick.plan.predicted.cost_seconds);
    CHECK(found.report.lower_bound_seconds <= found.plan.predicted.cost_seconds);
  }
}

TEST_CASE("where nothing fits on any mesh, the error names the least memory of all") {
  const graph::Graph graph = product(3);
  const auto meshes = all_meshes(8, cost::load_device_model("h200"));
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const cost::CostModel& cost : meshes) {
    try {
      search_plan(graph, cost, within("1B"));
      FAIL("a plan within a byte");
    } catch (const search::NothingFits& error) {
      CHECK_THAT(error.what(), Contains(std::to_string(error.least_bytes)));
      least = std::min(least, error.least_bytes);
    }
  }
  try {
    search_meshes(graph, meshes, within("1B"));
    FAIL("a plan within a byte");
  } catch (const search::NothingFits& error) {
    CHECK(error.least_bytes == least);
  }
  CHECK(search_meshes(graph, meshes, within(std::to_string(least))).plan.predicted.peak_bytes <=
        least);
}

TEST_CASE("a pin that one mesh alone can satisfy decides for it") {
  const graph::Graph graph = product(512);
  search::SearchOptions options = within("device");
  options.pins = {{"product", {}, {{sharding::TensorShardSpec::parse("S0S1")}}, {}}};
  const auto meshes = all_meshes(4, cost::load_device_model("h200"));
  const search::SolvedPlan plan_found = search_meshes(graph, meshes, options);
  const auto& plan = plan_found.plan;
  const search::SearchReport& plan_report = plan_found.report;
  CHECK(plan.mesh == sharding::DeviceMesh({2, 2}));
  CHECK_FALSE(trial_of(plan_report, sharding::DeviceMesh({4})).refusal.empty());
  CHECK(plan_report.proven_optimal);
  options.pins.front().outputs = {{sharding::TensorShardSpec::parse("S0S7")}};
  CHECK_THROWS_WITH(search_meshes(graph, meshes, options), Contains("product"));
}

TEST_CASE("where devices stand in nodes, a mesh that keeps to them beats one axis over all") {
  graph::Graph graph = product(3);
  const auto z = graph.add_value({"z", graph::DataType::float32, {3, 64}, std::nullopt});
  const auto w2 =
      graph.add_constant("w2", graph::Tensor::zeros(graph::DataType::float32, {128, 64}));
  graph.nodes.push_back({"second", "MatMul", "", {graph.outputs[0], w2}, {z}, {}});
  graph.outputs = {z};
  cost::DeviceModel device = cost::load_device_model("h200");
  device.gpus_per_node = 4;
  device.links = {{3e-6, 4.5e11}, {1e-3, 1e9}};
  const plan::Plan plan = search_meshes(graph, all_meshes(8, device), within("fair")).plan;
  const cost::CostModel one_axis(device, sharding::DeviceMesh({8}));
  CHECK(plan.predicted.cost_seconds <
        search_plan(graph, one_axis, within("fair")).plan.predicted.cost_seconds);
}
