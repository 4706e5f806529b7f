#include "search/similar_plan.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "block.h"
#include "plan/plan_json.h"
#include "program/lowering.h"
#include "search/search_plan.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using namespace autopar::search;
using Catch::Matchers::Contains;

namespace {

/// For so many rows, of weights whose data a rank has.
graph::Graph block_without_data(std::int64_t rows) {
  return block(rows, 64, 256, graph::Tensor::absent);
}

cost::CostModel on(const std::string& mesh) {
  return {cost::load_device_model("h200"), sharding::DeviceMesh::parse(mesh)};
}

plan::Plan searched(const graph::Graph& graph, const cost::CostModel& cost) {
  SearchOptions options;
  options.warns = false;
  return search_plan(graph, cost, options).plan;
}

/// As plan.json tells it.
std::vector<Pin> entries_of(const graph::Graph& graph, const plan::Plan& plan) {
  const TemporaryFolder folder;
  std::ofstream(folder / "plan.json") << plan_json(plan::one_stage_plan(graph, plan), {});
  return load_pins(folder / "plan.json");
}

}  // namespace

TEST_CASE("the plan for the shapes that it comes from is the same plan") {
  Random random(7);
  for (int i = 0; i < 40; ++i) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 6));
    const cost::CostModel cost = on(i % 2 == 0 ? "3" : "2x2");
    const plan::Plan plan = searched(graph, cost);
    const plan::Plan similar = similar_plan(graph, entries_of(graph, plan), cost);
    REQUIRE(similar.operators.size() == plan.operators.size());
    for (std::size_t n = 0; n < plan.operators.size(); ++n) {
      CHECK(similar.operators[n].inputs == plan.operators[n].inputs);
      CHECK(similar.operators[n].outputs == plan.operators[n].outputs);
      CHECK(similar.operators[n].reductions == plan.operators[n].reductions);
    }
    CHECK(similar.stored == plan.stored);
  }
}

TEST_CASE("other shapes are split as the plan splits its own, weights above all") {
  const cost::CostModel cost = on("4");
  const graph::Graph wide = block_without_data(512);
  const std::vector<Pin> entries = entries_of(wide, searched(wide, cost));
  for (const std::int64_t rows : {1, 3, 77, 4096}) {
    const graph::Graph graph = block_without_data(rows);
    const plan::Plan plan = similar_plan(graph, entries, cost);
    for (const Pin& entry : entries)
      for (const auto& [id, spec] : plan.stored)
        if (!entry.inputs && graph.value(id).name == entry.name)
          CHECK(spec == entry.outputs->front());
    CHECK_NOTHROW(program::lower(graph, plan, cost));
  }
}

TEST_CASE("an operator that the plan lacks gets a strategy of its own") {
  const cost::CostModel cost = on("4");
  const graph::Graph graph = block_without_data(512);
  std::vector<Pin> entries = entries_of(graph, searched(graph, cost));
  std::erase_if(entries, [](const Pin& entry) { return entry.name == "gelu"; });
  const plan::Plan plan = similar_plan(graph, entries, cost);
  // The hidden dimension is split on both sides: to split it here moves nothing.
  CHECK(plan.operators[1].inputs.front() == plan.operators[0].outputs.front());
}

TEST_CASE("a reader of partial sums whose producer the plan lacks reads whole ones") {
  Random random(8);
  int partial = 0;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 8));
    const cost::CostModel cost = on(i % 2 == 0 ? "3" : "2x2");
    std::vector<Pin> entries = entries_of(graph, random_plan(random, graph, cost.mesh()));
    std::erase_if(entries,
                  [&](const Pin& entry) { return entry.inputs && pick(random, 0, 2) == 0; });
    for (const Pin& entry : entries)
      partial += entry.inputs &&
                 std::ranges::any_of(*entry.inputs, &sharding::TensorShardSpec::is_partial);
    const plan::Plan plan = similar_plan(graph, entries, cost);
    CHECK_NOTHROW(program::lower(graph, plan, cost));
  }
  CHECK(partial > 30);
}

TEST_CASE("a weight that the plan lacks is refused by name") {
  const cost::CostModel cost = on("4");
  const graph::Graph graph = block_without_data(512);
  std::vector<Pin> entries = entries_of(graph, searched(graph, cost));
  std::erase_if(entries, [](const Pin& entry) { return entry.name == "w2"; });
  CHECK_THROWS_WITH(similar_plan(graph, entries, cost), Contains("weight 'w2'"));
}
