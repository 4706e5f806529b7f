#include "search/search_meshes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "search/logical_meshes.h"
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

const plan::MeshTrial& trial_of(const plan::Plan& plan, const sharding::DeviceMesh& mesh) {
  const auto& trials = plan.summary.meshes;
  const auto found = std::ranges::find(trials, mesh, &plan::MeshTrial::mesh);
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
    const plan::Plan best = search_meshes(graph, meshes, within("fair")).plan;
    double least = std::numeric_limits<double>::infinity();
    for (const cost::CostModel& cost : meshes) {
      const plan::Plan plan = search_plan(graph, cost, within("fair"));
      const plan::MeshTrial& trial = trial_of(best, cost.mesh());
      if (trial.cost_seconds) {
        CHECK(*trial.cost_seconds == plan.summary.cost_seconds);
        CHECK(trial.lower_bound_seconds <= plan.summary.cost_seconds);
      } else {
        CHECK(best.summary.cost_seconds <= plan.summary.cost_seconds);
      }
      // Of equal plans, that on the mesh of fewest axes.
      if (plan.summary.cost_seconds <= best.summary.cost_seconds) {
        CHECK(cost.mesh().num_axes() >= best.mesh.num_axes());
      }
      least = std::min(least, plan.summary.cost_seconds);
    }
    CHECK(best.summary.cost_seconds == least);
    CHECK(best.summary.proven_optimal);
    CHECK(best.summary.lower_bound_seconds == least);
    CHECK(best.summary.meshes.size() == meshes.size());
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
      const plan::Plan plan = search_plan(graph, cost, within("device"));
      const double rounding = 1e-12 * static_cast<double>(graph.nodes.size());
      CHECK(bound <= plan.summary.cost_seconds + rounding);
      if (cost.mesh().num_devices() == 1) {
        CHECK(bound == Approx(plan.summary.cost_seconds).margin(rounding));
      }
    }
  }
}

TEST_CASE("a mesh that there was no time for keeps an optimum from being proven") {
  const graph::Graph graph = product(512);
  search::SearchOptions options = within("fair");
  options.time_limit_seconds = 0;
  const auto meshes = all_meshes(4, cost::load_device_model("h200"));
  const plan::Plan plan = search_meshes(graph, meshes, options).plan;
  CHECK(plan.mesh == sharding::DeviceMesh({4}));
  const plan::MeshTrial& left_out = trial_of(plan, sharding::DeviceMesh({2, 2}));
  CHECK_FALSE(left_out.cost_seconds);
  CHECK(left_out.refusal.empty());
  CHECK_FALSE(plan.summary.proven_optimal);
  CHECK(plan.summary.lower_bound_seconds <= left_out.lower_bound_seconds);
  CHECK(plan.summary.lower_bound_seconds > 0);
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
  CHECK(search_meshes(graph, meshes, within(std::to_string(least))).plan.summary.peak_bytes <=
        least);
}

TEST_CASE("a pin that one mesh alone can satisfy decides for it") {
  const graph::Graph graph = product(512);
  search::SearchOptions options = within("device");
  options.pins = {{"product", {}, {{sharding::TensorShardSpec::parse("S0S1")}}, {}}};
  const auto meshes = all_meshes(4, cost::load_device_model("h200"));
  const plan::Plan plan = search_meshes(graph, meshes, options).plan;
  CHECK(plan.mesh == sharding::DeviceMesh({2, 2}));
  CHECK_FALSE(trial_of(plan, sharding::DeviceMesh({4})).refusal.empty());
  CHECK(plan.summary.proven_optimal);
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
  CHECK(plan.summary.cost_seconds <
        search_plan(graph, one_axis, within("fair")).summary.cost_seconds);
}
