#include "search/stages/joint_pipeline.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <set>

#include "search/logical_meshes.h"
#include "search/stages/similar_pipeline.h"
#include "unit/program/random_graph.h"
#include "unit/search/stages/decoder_sketch.h"

using namespace autopar;
using namespace autopar::search;

namespace {

/// Graphs as profiles on every mesh of the devices.
class Meshes {
 public:
  Meshes(const std::vector<graph::Graph>& graphs, const std::vector<double>& weights, int devices,
         const std::string& device = "h200") {
    for (const graph::Graph& graph : graphs) stages_.push_back(graph::whole_stage(graph));
    const cost::DeviceModel model = cost::load_device_model(device);
    for (const auto& mesh : logical_meshes(devices, model.gpus_per_node)) {
      std::vector<Profile>& profiles = meshes.emplace_back();
      for (std::size_t p = 0; p < graphs.size(); ++p) {
        costs_.emplace_back(model, mesh);
        profiles.push_back({&stages_[p], &costs_.back(), weights[p], "p" + std::to_string(p)});
      }
    }
  }
  Meshes(const Meshes&) = delete;

  std::vector<std::vector<Profile>> meshes;

 private:
  std::deque<graph::StageGraph> stages_;
  std::deque<cost::CostModel> costs_;
};

SearchOptions quiet() {
  SearchOptions options;
  options.warns = false;
  return options;
}

PipelineOptions in(int stages) {
  PipelineOptions pipeline;
  pipeline.stages = stages;
  pipeline.epsilon = 0;
  return pipeline;
}

}  // namespace

TEST_CASE("one profile in stages is what the search of stages finds") {
  Random random(31);
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    graph::Graph graph;
    do graph = RandomGraph(random).grow(pick(random, 2, 5));
    while (graph.nodes.size() < 2);
    const int stages = pick(random, 0, 2);
    const Meshes on({graph}, {1}, 4);
    const JointPipeline joint = search_joint_pipeline(on.meshes, quiet(), in(stages));
    std::vector<cost::CostModel> costs;
    for (const auto& mesh : on.meshes) costs.push_back(*mesh.front().cost);
    const FoundPipeline alone = search_pipeline(graph, graph, costs, quiet(), in(stages));
    REQUIRE(joint.plans.size() == 1);
    CHECK(joint.plans.front().stages.size() == alone.plan.stages.size());
    CHECK(joint.predicted.cost_seconds == Approx(alone.plan.predicted.cost_seconds).epsilon(1e-12));
    CHECK(joint.report.lower_bound_seconds ==
          Approx(alone.report.lower_bound_seconds).epsilon(1e-12));
    CHECK(joint.predicted.weight_bytes <= joint.predicted.peak_bytes);
  }
}

TEST_CASE("profiles are cut alike, and weights and states lie one way in each stage") {
  const std::vector<graph::Graph> graphs{decoder(1), decoder(512), decoder(64)};
  const std::vector<double> weights{64, 1, 2};
  const Meshes on(graphs, weights, 4);
  const JointPipeline joint = search_joint_pipeline(on.meshes, quiet(), in(2));
  REQUIRE(joint.plans.size() == 3);
  std::map<std::pair<std::size_t, std::string>, std::set<std::string>> stored;
  double cost = 0;
  for (std::size_t p = 0; p < 3; ++p) {
    const plan::PipelinePlan& plan = joint.plans[p];
    REQUIRE(plan.stages.size() == 2);
    int rank = 0;
    std::size_t node = 0;
    for (std::size_t s = 0; s < 2; ++s) {
      const plan::StagePlan& stage = plan.stages[s];
      const plan::StagePlan& other = joint.plans.front().stages[s];
      CHECK(stage.first_rank == rank);
      CHECK(stage.plan.mesh == other.plan.mesh);
      CHECK(stage.stage.graph.nodes.size() == other.stage.graph.nodes.size());
      for (const graph::Node& each : stage.stage.graph.nodes)
        CHECK(each.name == graphs[p].nodes.at(node++).name);
      for (const auto& [value, spec] : stage.plan.stored) {
        const graph::Value& tensor = stage.stage.graph.value(value);
        if (tensor.constant || tensor.name.starts_with("past"))
          stored[{s, tensor.name}].insert(to_string(spec));
      }
      rank += stage.num_devices();
    }
    CHECK(rank == 4);
    CHECK(node == graphs[p].nodes.size());
    CHECK(plan.stages.front().transfer_seconds > 0);
    CHECK(plan.predicted.cost_seconds == plan::pipeline_seconds(plan));
    cost += weights[p] * plan.predicted.cost_seconds;
  }
  CHECK(stored.size() == 8);
  for (const auto& [name, specs] : stored) CHECK(specs.size() == 1);
  CHECK(joint.predicted.cost_seconds == Approx(cost));
  CHECK(joint.report.lower_bound_seconds > 0);
  CHECK(joint.report.lower_bound_seconds <= cost);
}

TEST_CASE("the bound is below what each profile by itself takes at best") {
  const std::vector<graph::Graph> graphs{decoder(2), decoder(96)};
  const std::vector<double> weights{16, 1};
  for (const auto objective : {plan::Objective::latency, plan::Objective::throughput})
    for (const int stages : {0, 2, 3}) {
      CAPTURE(name_of(objective), stages);
      PipelineOptions pipeline = in(stages);
      pipeline.objective = objective;
      const Meshes on(graphs, weights, 4);
      const JointPipeline joint = search_joint_pipeline(on.meshes, quiet(), pipeline);
      double best = 0;
      for (std::size_t p = 0; p < graphs.size(); ++p) {
        std::vector<cost::CostModel> costs;
        for (const auto& mesh : on.meshes) costs.push_back(*mesh[p].cost);
        const FoundPipeline alone = search_pipeline(graphs[p], graphs[p], costs, quiet(), pipeline);
        best += weights[p] * alone.plan.predicted.cost_seconds;
      }
      constexpr double rounding = 1 + 1e-6;  // of each operator's cost to picoseconds
      CHECK(joint.report.lower_bound_seconds <= best * rounding);
      CHECK(best <= joint.predicted.cost_seconds * rounding);
      if (joint.report.proven_optimal)
        CHECK(joint.predicted.cost_seconds == Approx(best).epsilon(1e-6));
    }
}

TEST_CASE("a pin is for its stage and profile") {
  const std::vector<graph::Graph> graphs{decoder(64), decoder(128)};
  const Meshes on(graphs, {1, 1}, 4);
  const auto split = sharding::TensorShardSpec::parse("S0R");
  SearchOptions options = quiet();
  options.pins = {{"matmul3", {}, {{split}}, {}, "p0", {}}};
  const JointPipeline joint = search_joint_pipeline(on.meshes, options, in(2));
  int found = 0;
  for (const plan::StagePlan& stage : joint.plans.front().stages) {
    const graph::Graph& graph = stage.stage.graph;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      if (graph.nodes[n].name != "matmul3") continue;
      CHECK(stage.plan.operators[n].outputs.front() == split);
      ++found;
    }
  }
  CHECK(found == 1);
  options.pins.front().profile = "p7";
  CHECK_THROWS_WITH(search_joint_pipeline(on.meshes, options, in(2)),
                    Catch::Matchers::Contains("p7"));
}
