#include "search/search_at_rest.h"

#include <catch2/catch.hpp>

#include "block.h"
#include "plan_pricing.h"
#include "program/memory_prediction.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using search::CountedMemory;
using search::SearchAtRest;

namespace {

search::SearchOptions options_for(const search::MemoryPolicy& memory) {
  search::SearchOptions options;
  options.memory = memory;
  options.run_bytes = program::most_run_bytes;
  options.time_limit_seconds = 20;
  options.warns = false;
  return options;
}

SearchAtRest at_rest(const search::Profile& profile, const search::SearchOptions& options) {
  const std::span<const search::Profile> profiles(&profile, 1);
  return search::search_at_rest(
      {.profiles = profiles,
       .options = options,
       .built = build_plan_problem(profiles, options, CountedMemory::at_rest)});
}

}  // namespace

TEST_CASE("a search that counts memory at rest alone bounds all plans, and its own fits") {
  Random random(12);
  int answers = 0;
  for (int round = 0; round < 30; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 4));
    const sharding::DeviceMesh mesh =
        round % 2 == 0 ? sharding::DeviceMesh({2, 2, 2}) : sharding::DeviceMesh({2, 3});
    const cost::CostModel cost(cost::load_device_model("h100-cluster"), mesh);
    const graph::StageGraph stage = graph::whole_stage(graph);
    const search::Profile profile{.stage = &stage, .cost = &cost};
    search::SearchOptions options = options_for(search::MemoryPolicy::parse("fair"));
    search::JointPlan full = search::search_plan({&profile, 1}, options);
    if (round % 3 == 0) {  // limits that activations decide
      options = options_for({search::MemoryPolicy::Kind::bytes, full.predicted.peak_bytes});
      full = search::search_plan({&profile, 1}, options);
    }
    const SearchAtRest rest = at_rest(profile, options);
    if (!rest.plan) continue;
    CHECK(rest.plan->predicted.peak_bytes <= search::limit_of(options.memory, cost.device()));
    CHECK(rest.plan->report.lower_bound_seconds <= full.predicted.cost_seconds);
    CHECK(rest.plan->predicted.cost_seconds >= full.report.lower_bound_seconds);
    if (!rest.is_answer) continue;
    ++answers;
    CHECK(rest.plan->predicted.cost_seconds == Approx(full.predicted.cost_seconds).epsilon(1e-3));
  }
  CHECK(answers > 15);
  CHECK(answers < 30);
}

TEST_CASE("where weights take most of the memory, limits on them find what brute force finds") {
  const graph::Graph graph = block(1, 96, 200);
  const graph::StageGraph stage = graph::whole_stage(graph);
  constexpr std::int64_t beside = 3'000;  // bytes that every shard needs beside its weights
  constexpr double picosecond = 1e-12;
  int lowered = 0;
  for (const char* mesh : {"2", "3"}) {
    const cost::CostModel cost = model_of(mesh);
    const search::Profile profile{.stage = &stage, .cost = &cost};
    const std::span<const search::Profile> profiles(&profile, 1);
    const std::int64_t whole = graph::constant_bytes(graph);
    for (std::int64_t limit = whole + 2 * beside; limit >= beside + whole / 2;
         limit -= whole / 40) {
      CAPTURE(mesh, limit);
      search::SearchOptions options = options_for({search::MemoryPolicy::Kind::bytes, limit});
      options.run_bytes = [&](const graph::Graph&, int) { return beside; };
      const search::PlanTask task{
          .profiles = profiles, .options = options, .built = build_plan_problem(profiles, options)};
      search::Incumbent found;
      const search::AtRest rest = improve_at_rest(task, found);
      const double least = least_price(graph, cost, limit - beside);
      REQUIRE(rest.excess <= 0);
      CHECK(search::peak_of(found.plans) <= limit);
      CHECK(static_cast<double>(found.cost) * picosecond == Approx(least).margin(1e-10));
      CHECK(rest.bound <= found.cost);
      lowered += rest.bound < found.cost ? 1 : 0;
    }
  }
  CHECK(lowered > 0);
}
