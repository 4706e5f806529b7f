// The property that everything rests on: whatever strategy each operator has, the ranks together
// compute what the whole graph computes, and communicate and need what was predicted.

#include <catch2/catch.hpp>

#include "unit/program/check_plan.h"
#include "unit/program/random_graph.h"
#include "unit/program/slow_between_nodes.h"

using namespace autopar;
using graph::Graph;
using graph::Tensor;
using graph::ValueId;

namespace {

/// Counts operators that leave outputs partial in `operators_that_keep`.
void check_random_plan(unsigned seed, const sharding::DeviceMesh& mesh,
                       std::ptrdiff_t& operators_that_keep) {
  Random random(seed);
  const Graph graph = RandomGraph(random).grow(pick(random, 2, 14));
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) inputs.push_back(random_input(random, graph.value(id)));
  const plan::Plan plan = random_plan(random, graph, mesh);
  const auto keeps = [](const sharding::OpShardSpec& strategy) {
    return std::ranges::any_of(strategy.outputs, &sharding::TensorShardSpec::is_partial);
  };
  operators_that_keep += std::ranges::count_if(plan.operators, keeps);
  check_plan(graph, plan, inputs);
}

}  // namespace

TEST_CASE("sums over nodes, reduced in several steps, are what the whole graph computes") {
  std::size_t chains = 0;
  for (const auto& [mesh_text, per_node] :
       {std::pair("2x2", 2), {"2x3", 3}, {"3x2", 2}, {"2x2x2", 2}, {"2x2x2", 4}}) {
    const auto mesh = sharding::DeviceMesh::parse(mesh_text);
    const cost::DeviceModel device = slow_between_nodes(per_node);
    const cost::CostModel cost(device, mesh);
    for (unsigned seed = 0; seed < 40; ++seed) {
      INFO("mesh " << mesh_text << " of nodes of " << per_node << ", seed " << seed);
      Random random(seed);
      const Graph graph = RandomGraph(random).grow(pick(random, 2, 10));
      std::vector<Tensor> inputs;
      for (const ValueId id : graph.inputs) inputs.push_back(random_input(random, graph.value(id)));
      const plan::Plan plan = random_plan(random, graph, mesh);
      check_plan(graph, plan, inputs, device);
      for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
        const graph::Value& output = graph.value(graph.nodes[n].outputs[0]);
        const auto steps = cost.reduction(plan.operators[n], 0, output).steps;
        if (steps.size() > 1) ++chains;
      }
    }
  }
  CHECK(chains > 20);
}

TEST_CASE("random strategies on random graphs compute what the whole graph does") {
  const auto mesh =
      GENERATE(as<std::string>{}, "1", "2", "3", "4", "7", "2x2", "2x3", "1x3", "2x2x2");
  std::ptrdiff_t operators_that_keep = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    INFO("mesh " << mesh << ", seed " << seed);
    check_random_plan(seed, sharding::DeviceMesh::parse(mesh), operators_that_keep);
  }
  CAPTURE(mesh, operators_that_keep);
  CHECK((operators_that_keep > 20 || mesh == "1"));
}
