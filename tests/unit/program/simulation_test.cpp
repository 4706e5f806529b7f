#include "program/simulation.h"

#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "unit/program/random_graph.h"
#include "unit/program/random_pipeline.h"

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

}  // namespace

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
