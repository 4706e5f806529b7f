#include "sharding/rewrites/rewrites.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "graph/graph.h"

using namespace autopar::graph;

namespace {

Tensor counted(Shape shape) {
  std::vector<float> values(static_cast<std::size_t>(num_elements(shape)));
  std::iota(values.begin(), values.end(), 0.0F);
  return Tensor::of_float(std::move(shape), values);
}

/// x [4, 6] times a weight [6, 12], plus a bias, reshaped to [1, 4, 12], split into 3, 3 and 6:
/// a fused projection as exporters write it.
Graph fused_projection() {
  Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&graph](std::string name, Shape shape) {
    return graph.add_value({std::move(name), DataType::float32, std::move(shape), std::nullopt});
  };
  const ValueId x = value("x", {4, 6});
  const ValueId projected = value("projected", {4, 12});
  const ValueId reshaped = value("reshaped", {1, 4, 12});
  const ValueId weight = graph.add_constant("weight", counted({6, 12}));
  const ValueId bias = graph.add_constant("bias", counted({12}));
  const ValueId shape =
      graph.add_constant("shape", Tensor::of_int64({3}, std::vector<std::int64_t>{1, 4, 12}));
  const ValueId sizes =
      graph.add_constant("sizes", Tensor::of_int64({3}, std::vector<std::int64_t>{3, 3, 6}));
  graph.inputs = {x};
  graph.outputs = {value("q", {1, 4, 3}), value("k", {1, 4, 3}), value("v", {1, 4, 6})};
  graph.nodes = {
      {"gemm", "Gemm", "", {x, weight, bias}, {projected}, {}},
      {"reshape", "Reshape", "", {projected, shape}, {reshaped}, {}},
      {"split", "Split", "", {reshaped, sizes}, graph.outputs, {{"axis", std::int64_t{-1}}}}};
  return graph;
}

std::vector<std::string> operators(const Graph& graph) {
  std::vector<std::string> result;
  for (const Node& node : graph.nodes) result.push_back(node.op_type);
  std::ranges::sort(result);
  return result;
}

}  // namespace

TEST_CASE("a fused projection becomes one product a piece, on views of the weight") {
  const Graph before = fused_projection();
  Graph graph = before;
  autopar::sharding::hoist_splits(graph);
  check_invariants(graph);
  CHECK(operators(graph) ==
        std::vector<std::string>{"Gemm", "Gemm", "Gemm", "Reshape", "Reshape", "Reshape"});
  REQUIRE(graph.outputs.size() == 3);
  const std::vector<NodeId> producer = producers(graph);
  std::int64_t column = 0;
  for (const ValueId output : graph.outputs) {
    const std::int64_t width = graph.value(output).shape.back();
    const Node& reshape = graph.node(producer[static_cast<std::size_t>(output)]);
    REQUIRE(reshape.op_type == "Reshape");
    CHECK(graph.value(reshape.inputs[1]).constant->to_int64s() == Shape{1, 4, width});
    const Node& gemm = graph.node(producer[static_cast<std::size_t>(reshape.inputs[0])]);
    CHECK(graph.value(gemm.outputs[0]).shape == Shape{4, width});
    const Tensor& weight = *graph.value(gemm.inputs[1]).constant;
    const Tensor& whole_weight = *before.value(before.nodes[0].inputs[1]).constant;
    CHECK(
        weight.same_view(whole_weight.slice(std::vector<Range>{{0, 6}, {column, column + width}})));
    const Tensor& bias = *graph.value(gemm.inputs[2]).constant;
    const Tensor& whole_bias = *before.value(before.nodes[0].inputs[2]).constant;
    CHECK(bias.same_view(whole_bias.slice(std::vector<Range>{{column, column + width}})));
    column += width;
  }
  CHECK(column == 12);
}

TEST_CASE("a projection that is read elsewhere, or is an output, stays fused") {
  Graph read_twice = fused_projection();
  const ValueId copy = read_twice.add_value({"copy", DataType::float32, {1, 4, 12}, std::nullopt});
  read_twice.nodes.push_back({"relu", "Relu", "", {read_twice.nodes[1].outputs[0]}, {copy}, {}});
  read_twice.outputs.push_back(copy);
  autopar::sharding::hoist_splits(read_twice);
  CHECK(operators(read_twice) == std::vector<std::string>{"Gemm", "Relu", "Reshape", "Split"});

  Graph also_output = fused_projection();
  also_output.outputs.push_back(also_output.nodes[0].outputs[0]);
  autopar::sharding::hoist_splits(also_output);
  CHECK(operators(also_output) == std::vector<std::string>{"Gemm", "Reshape", "Split"});
}

TEST_CASE("a split along what the product sums or takes from its input stays") {
  Graph graph = fused_projection();
  graph.nodes[2].attributes["axis"] = std::int64_t{1};  // rows come from x, not from a constant
  for (std::size_t i = 0; i < 3; ++i) {
    graph.value(graph.outputs[i]).shape = {1, i == 2 ? 2 : 1, 12};
  }
  graph.value(graph.nodes[2].inputs[1]).constant =
      Tensor::of_int64({3}, std::vector<std::int64_t>{1, 1, 2});
  autopar::sharding::hoist_splits(graph);
  CHECK(operators(graph) == std::vector<std::string>{"Gemm", "Reshape", "Split"});
}
