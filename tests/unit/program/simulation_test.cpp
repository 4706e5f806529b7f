#include "program/simulation.h"

#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "unit/program/plan_sketch.h"
#include "unit/program/random_graph.h"
#include "unit/program/random_pipeline.h"
#include "unit/program/slow_between_nodes.h"
#include "unit/search/plan_pricing.h"

using namespace autopar;
using namespace autopar::program;
using Lane = SimulatedStep::Lane;

namespace {

/// Fills in what a search would have predicted, from the program itself.
void price(plan::PipelinePlan& plan, const Simulation& simulation) {
  for (plan::StagePlan& stage : plan.stages) {
    double work = 0;
    double sent = 0;
    for (const SimulatedStep& step : simulation.steps(stage.first_rank)) {
      if (step.microbatch > 0) continue;
      if (step.lane == Lane::send) sent += step.seconds;
      if (step.lane == Lane::computation || step.lane == Lane::communication) work += step.seconds;
    }
    stage.plan.predicted.cost_seconds = work;
    stage.transfer_seconds = sent;
  }
}

plan::PipelinePlan one_stage(const graph::Graph& graph, const plan::Plan& plan) {
  plan::PipelinePlan pipeline;
  pipeline.stages.push_back({.stage = graph::whole_stage(graph), .plan = plan});
  return pipeline;
}

}  // namespace

TEST_CASE("a plan over nodes simulates in the time that the search proved to be the least") {
  std::size_t chains = 0;
  for (const auto& [mesh_text, per_node] : {std::pair("2x2", 2), {"2x2x2", 4}}) {
    const cost::DeviceModel device = slow_between_nodes(per_node);
    const cost::CostModel cost(device, sharding::DeviceMesh::parse(mesh_text));
    for (unsigned seed = 0; seed < 20; ++seed) {
      CAPTURE(mesh_text, seed);
      Random random(seed);
      const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 8));
      const search::SolvedPlan found = search::search_plan(graph, cost, within("device"));
      const plan::PipelinePlan pipeline = one_stage(graph, found.plan);
      const PipelineProgram program = lower(pipeline, device);
      const Simulation simulation(pipeline, program, device);
      CHECK(found.report.proven_optimal);
      CHECK(simulation.seconds() == Approx(found.plan.predicted.cost_seconds).margin(1e-10));
      CHECK(simulation.seconds() == Approx(price_of(graph, cost, found.plan)));
      chains += program.stages[0].instructions.size() - graph.nodes.size();
    }
  }
  CHECK(chains > 0);
}

TEST_CASE("a sum over nodes simulates as its steps, for what the formulas say") {
  const cost::DeviceModel device = slow_between_nodes(/*devices_per_node=*/4);
  PlanSketch sketch("2x4");
  sketch.input("x", {8, 8}, "RS01");
  sketch.weight("w", {8, 8}, "S01R");
  sketch.node("MatMul", {"x", "w"}, "y", {8, 8}, "RS01,S01R->RR all-reduce");
  sketch.output("y");
  const plan::PipelinePlan pipeline = one_stage(sketch.graph, sketch.plan);
  const PipelineProgram program = lower(pipeline, device);
  const Simulation simulation(pipeline, program, device);
  for (int rank = 0; rank < 8; ++rank) {
    std::vector<std::string> order;
    double communication = 0;
    std::int64_t bytes = 0;
    for (const SimulatedStep& step : simulation.steps(rank)) {
      if (step.lane != Lane::communication) continue;
      order.push_back(step.op_type);
      communication += step.seconds;
      bytes += *step.bytes;
    }
    CHECK(order == std::vector<std::string>{"ReduceScatter", "AllReduce", "AllGather"});
    // Quarters of 256 bytes within a node, twice, and halves of a quarter between the two nodes.
    CHECK(communication == Approx(2 * 3 * 64 / 1e9 + 2 * 32 / 1e6));
    CHECK(bytes == 256 + 64 + 256);
    CHECK(simulation.steps(rank).back().begin_seconds + simulation.steps(rank).back().seconds ==
          Approx(simulation.seconds()));
  }
}

TEST_CASE("a simulated run ends when the objective says, and breaks no order") {
  const cost::DeviceModel device = cost::load_device_model("cpu");
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 12));
    plan::PipelinePlan plan = random_pipeline(random, graph, pick(random, 1, 5));
    const PipelineProgram program = lower(plan, device);
    const Simulation simulation(plan, program, device);
    price(plan, simulation);
    CHECK(simulation.seconds() == Approx(plan::pipeline_seconds(plan)).epsilon(1e-9));

    double end = 0;
    std::map<std::tuple<std::size_t, std::string, int>, double> departures;  // by stage
    for (int rank = 0; rank < plan.num_devices(); ++rank) {
      const graph::Graph shard = rank_graph(plan, program, rank);
      const std::size_t stage = stage_of(plan, rank);
      const auto steps = simulation.steps(rank);
      REQUIRE(steps.size() == shard.nodes.size() * static_cast<std::size_t>(plan.microbatches));
      std::map<Lane, double> lane_ends;
      double arrived = 0;
      double own_end = 0;
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const SimulatedStep& step = steps[i];
        CHECK(step.node == shard.nodes[i % shard.nodes.size()].name);
        CHECK(step.microbatch == static_cast<int>(i / shard.nodes.size()));
        CHECK(step.seconds >= 0);
        // A lane does one thing at a time.
        CHECK(step.begin_seconds >= lane_ends[step.lane] - 1e-15);
        const double step_end = step.begin_seconds + step.seconds;
        lane_ends[step.lane] = step_end;
        const std::string value = step.node.substr(0, step.node.rfind('/'));
        if (step.lane == Lane::receive) {
          arrived = std::max(arrived, step_end);
          CHECK(departures.at({stage - 1, value, step.microbatch}) == Approx(step.begin_seconds));
        } else if (step.lane == Lane::send) {
          CHECK(step.begin_seconds >= own_end - 1e-15);
          departures[{stage, value, step.microbatch}] = step.begin_seconds;
        } else {
          CHECK(step.begin_seconds >= arrived - 1e-15);
          own_end = step_end;
        }
        end = std::max(end, step_end);
      }
    }
    CHECK(end == Approx(simulation.seconds()));
  }
}
