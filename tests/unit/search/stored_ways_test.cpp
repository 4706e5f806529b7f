#include "search/stored_ways.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>

#include "cost/device_file.h"
#include "plan/plan.h"
#include "search/partial_flow.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using namespace autopar::search;
using sharding::TensorShardSpec;

namespace {

/// An input and four weights of 64x64 numbers, the last of 8 alone.
graph::Graph weights() {
  Random random(3);
  graph::Graph graph;
  graph.values.push_back(
      {.name = "x", .type = graph::DataType::float32, .shape = {64, 64}, .constant = {}});
  for (const char* name : {"a", "b", "pinned", "far"})
    graph.values.push_back({.name = name,
                            .type = graph::DataType::float32,
                            .shape = {64, 64},
                            .constant = random_floats(random, {64, 64})});
  graph.values.push_back({.name = "small",
                          .type = graph::DataType::float32,
                          .shape = {8},
                          .constant = random_floats(random, {8})});
  graph.inputs = {0};
  return graph;
}

const TensorShardSpec rows = TensorShardSpec::parse("S0R");

}  // namespace

TEST_CASE("tensors that are alike share the ways in which they may lie, others do not") {
  const graph::Graph graph = weights();
  const cost::CostModel cost(cost::load_device_model("h200"), sharding::DeviceMesh({2, 2}));
  plan::Plan plan;
  plan.mesh = cost.mesh();
  for (graph::ValueId id = 0; id < std::ssize(graph.values); ++id)
    plan.stored.emplace(id, TensorShardSpec::replicated(graph.value(id).shape.size()));
  plan.stored.at(4) = rows;
  const std::vector<Pin> pins{
      {.name = "pinned", .inputs = {}, .outputs = {{rows}}, .reductions = {}}};
  const bool is_near = GENERATE(false, true);
  const Neighbourhood near{.plan = is_near ? &plan : nullptr, .free_axes = {1}};

  Problems problems;
  std::deque<PartContext> profiles;
  profiles.emplace_back(graph, std::span<const graph::ValueId>(), cost, 1, pins, near, Symmetry(),
                        KeepPartial::where_it_may_save, 0, problems);
  problems.throw_if_any();
  StoredWaysTable table(profiles);
  const auto a = table.of(0, 1);
  CHECK(table.of(0, 2) == a);
  CHECK(table.of(0, 3)->specs == SpecList{rows});
  CHECK(table.of(0, 5)->specs == SpecList{TensorShardSpec::replicated(1)});
  CHECK(table.of(0, 0)->specs == a->specs);
  CHECK(table.of(0, 0)->bytes != a->bytes);  // of an arena

  const auto far = table.of(0, 4);
  CHECK((far == a) == !is_near);
  const auto splits_rows = [](const TensorShardSpec& spec) {
    return spec.dims[0] == std::vector{0} || spec.dims[0] == std::vector{0, 1} ||
           spec.dims[0] == std::vector{1, 0};
  };
  CHECK(std::ranges::all_of(far->specs, splits_rows) == is_near);
  CHECK(std::ranges::none_of(a->specs, splits_rows) == is_near);

  for (const auto& ways : {a, far, table.of(0, 3)}) {
    REQUIRE(ways->bytes.size() == ways->specs.size());
    for (std::size_t k = 0; k < ways->specs.size(); ++k) {
      std::int64_t bytes = 4;
      for (const std::int64_t extent : local_shape(ways->specs[k], {64, 64}, cost.mesh(), 0))
        bytes *= extent;
      CHECK(ways->bytes[k] == bytes);
    }
    CHECK(ways->bytes_without_pins.size() == a->bytes_without_pins.size());
  }
}
