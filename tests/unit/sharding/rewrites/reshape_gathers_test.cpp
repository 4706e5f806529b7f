#include "sharding/rewrites/rewrites.h"

#include <catch2/catch.hpp>
#include <numeric>

using namespace autopar;
using graph::DataType;
using graph::Graph;
using graph::Tensor;

namespace {

/// y = Gather(x, indices) along the axis.
Graph gather(graph::Shape data, std::int64_t axis, Tensor indices, graph::Shape out) {
  Graph graph;
  graph.opsets[""] = 18;
  const auto x = graph.add_value({"x", DataType::float32, std::move(data), std::nullopt});
  const auto i = graph.add_constant("i", std::move(indices));
  const auto y = graph.add_value({"y", DataType::float32, std::move(out), std::nullopt});
  graph.nodes.push_back({"take", "Gather", "", {x, i}, {y}, {{"axis", axis}}});
  graph.inputs = {x};
  graph.outputs = {y};
  return graph;
}

Tensor numbers(graph::Shape shape, std::int64_t first = 0) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(graph::num_elements(shape)));
  std::iota(values.begin(), values.end(), first);
  return Tensor::of_int64(std::move(shape), values);
}

}  // namespace

TEST_CASE("a Gather of everything in order is a Reshape") {
  for (const std::int64_t axis : {1, -1}) {
    Graph graph = gather({5, 6}, axis, numbers({2, 1, 3}), {5, 2, 1, 3});
    sharding::reshape_whole_gathers(graph);
    graph::check_invariants(graph);
    REQUIRE(graph.nodes.size() == 1);
    const graph::Node& node = graph.nodes[0];
    CHECK(node.op_type == "Reshape");
    CHECK(node.attributes.empty());
    const auto shape = graph.value(node.inputs[1]).constant->values<std::int64_t>();
    CHECK(std::vector(shape.begin(), shape.end()) == graph::Shape{5, 2, 1, 3});
    CHECK(graph.values.size() == 3);  // the indices are gone
  }
}

TEST_CASE("a GatherND of everything in order is a Reshape") {
  const Tensor places = Tensor::of_int64({2, 1, 3, 2}, {{0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}});
  Graph graph = gather({2, 3, 4}, 0, places, {2, 1, 3, 4});
  graph.nodes[0].op_type = "GatherND";
  graph.nodes[0].attributes.clear();
  Graph other = graph;
  sharding::reshape_whole_gathers(graph);
  CHECK(graph.nodes[0].op_type == "Reshape");
  graph::check_invariants(graph);

  SECTION("not in another order") {
    other.values[1].constant =
        Tensor::of_int64({2, 1, 3, 2}, {{1, 0, 0, 1, 0, 2, 0, 0, 1, 1, 1, 2}});
  }
  SECTION("not by batch") { other.nodes[0].attributes["batch_dims"] = std::int64_t{1}; }
  sharding::reshape_whole_gathers(other);
  CHECK(other.nodes[0].op_type == "GatherND");
}

TEST_CASE("any other Gather stays") {
  const auto stays = [](Graph graph) {
    sharding::reshape_whole_gathers(graph);
    return graph.nodes[0].op_type == "Gather";
  };
  CHECK(stays(gather({6}, 0, numbers({5}), {5})));
  CHECK(stays(gather({6}, 0, numbers({6}, 1), {6})));
  CHECK(stays(gather({3}, 0, Tensor::of_int64({3}, {{0, 2, 1}}), {3})));
  CHECK(stays(gather({3}, 0, Tensor::of_int64({3}, {{0, 1, 1}}), {3})));
  CHECK(stays(gather({0}, 0, numbers({0}), {0})));
}
