#include "search/stages/similar_pipeline.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "plan/plan_json.h"
#include "program/pipeline_program.h"
#include "search/stages/search_pipeline.h"
#include "unit/program/random_graph.h"
#include "unit/search/stages/decoder_sketch.h"

using namespace autopar;
using namespace autopar::search;
using Catch::Matchers::Contains;

namespace {

plan::PipelinePlan searched(const graph::Graph& graph, int devices, int stages) {
  const cost::CostModel one(cost::load_device_model("h200"), sharding::DeviceMesh({devices}));
  SearchOptions options;
  options.warns = false;
  PipelineOptions pipeline;
  pipeline.stages = stages;
  return search_pipeline(graph, graph, {&one, 1}, options, pipeline).plan;
}

/// As plan.json tells it.
std::vector<OtherStage> stages_of(const plan::PipelinePlan& plan) {
  const TemporaryFolder folder;
  std::ofstream(folder / "plan.json") << plan_json(plan, {});
  std::vector<OtherStage> stages;
  for (const plan::StagePlan& stage : plan.stages)
    stages.push_back({{cost::load_device_model("h200"), stage.plan.mesh}, stage.first_rank, {}});
  for (Pin& entry : load_pins(folder / "plan.json"))
    stages.at(static_cast<std::size_t>(entry.stage.value_or(0))).entries.push_back(entry);
  return stages;
}

}  // namespace

TEST_CASE("the pipeline for the shapes that it comes from is the same pipeline") {
  Random random(9);
  int in_stages = 0;
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 8));
    if (graph.nodes.size() < 3) continue;
    const plan::PipelinePlan plan = searched(graph, 4, pick(random, 1, 3));
    const plan::PipelinePlan similar = similar_pipeline(graph, stages_of(plan));
    REQUIRE(similar.stages.size() == plan.stages.size());
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const plan::StagePlan& made = similar.stages[s];
      const plan::StagePlan& other = plan.stages[s];
      CHECK(made.first_rank == other.first_rank);
      CHECK(made.plan.mesh == other.plan.mesh);
      CHECK(made.plan.operators == other.plan.operators);
      CHECK(made.plan.stored == other.plan.stored);
      REQUIRE(made.stage.graph.nodes.size() == other.stage.graph.nodes.size());
      CHECK(made.stage.graph.nodes.front().name == other.stage.graph.nodes.front().name);
    }
    in_stages += plan.stages.size() > 1 ? 1 : 0;
  }
  CHECK(in_stages > 10);
}

TEST_CASE("other shapes are cut where the plan cuts its own") {
  const std::vector<OtherStage> stages = stages_of(searched(decoder(512), 4, 2));
  for (const std::int64_t rows : {2, 3, 77}) {
    const plan::PipelinePlan plan = similar_pipeline(decoder(rows), stages);
    REQUIRE(plan.stages.size() == 2);
    std::size_t states = 0;
    for (std::size_t s = 0; s < 2; ++s) {
      const graph::Graph& graph = plan.stages[s].stage.graph;
      for (const graph::Node& node : graph.nodes) {
        const auto is_its = [&](const Pin& pin) { return pin.inputs && pin.name == node.name; };
        CHECK(std::ranges::any_of(stages[s].entries, is_its));
      }
      for (const graph::State& state : graph.states)
        CHECK(plan.stages[s].plan.spec_of(graph, graph.outputs[state.output]) ==
              plan.stages[s].plan.spec_of(graph, graph.inputs[state.input]));
      states += graph.states.size();
    }
    CHECK(states == 4);
    CHECK_NOTHROW(program::lower(plan, stages.front().cost.device()));
  }
}

TEST_CASE("operators that the plan lacks are in the stage of the next one that it has") {
  const graph::Graph graph = decoder(8);
  const graph::StageCutter cutter(graph);
  const std::map<std::string, int> stage_of{
      {"matmul0", 0}, {"relu1", 0}, {"add2", 1}, {"relu3", 1}};
  CHECK(similar_cuts(graph, cutter, stage_of, 2) == LayerCuts{0, 6, 12});
  CHECK(similar_cuts(graph, cutter, {{"add2", 0}}, 1) == LayerCuts{0, 12});
  CHECK_THROWS_WITH(similar_cuts(graph, cutter, {{"add0", 1}, {"relu1", 0}}, 2),
                    Contains("'relu1' of stage 0 stands behind one of stage 1"));
  CHECK_THROWS_WITH(similar_cuts(graph, cutter, {{"relu3", 0}}, 2), Contains("no operator left"));
  CHECK_THROWS_WITH(similar_cuts(graph, cutter, {{"relu1", 1}}, 3), Contains("no operator left"));
  CHECK_THROWS_WITH(similar_cuts(graph, cutter, {{"add1", 0}, {"relu1", 1}}, 2),
                    Contains("part of a state"));
}
