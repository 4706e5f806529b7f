#include "graph/derived_constants.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/arena.h"

using namespace autopar;
using namespace autopar::graph;

namespace {

/// Attention to relative positions in two layers, as DeBERTa has it: a table times a weight of each
/// layer, plus a bias, is multiplied by what a run gives.
struct Layers {
  Graph graph;
  ValueId table;
  std::vector<ValueId> weights;    ///< by layer
  std::vector<ValueId> positions;  ///< by layer, what other nodes read

  explicit Layers(std::int64_t rows, std::int64_t width) {
    table = constant("table", {rows, width});
    ValueId state = value("state", {2, width});
    graph.inputs = {state};
    for (const std::string layer : {"a", "b"}) {
      weights.push_back(constant("w" + layer, {width, width}));
      const ValueId product = node("MatMul", {table, weights.back()}, {rows, width});
      const ValueId sum = node("Add", {product, constant("bias" + layer, {width})}, {rows, width});
      positions.push_back(node("Transpose", {sum}, {width, rows}));
      const ValueId scores = node("MatMul", {state, positions.back()}, {2, rows});
      state = node("MatMul", {scores, table}, {2, width});
    }
    graph.outputs = {state};
  }

  ValueId value(std::string name, Shape shape) {
    return graph.add_value({std::move(name), DataType::float32, std::move(shape), std::nullopt});
  }
  ValueId constant(const std::string& name, const Shape& shape) {
    return graph.add_constant(name, Tensor::absent(DataType::float32, shape));
  }
  ValueId node(const std::string& op_type, std::vector<ValueId> inputs, const Shape& shape) {
    const std::string name = op_type + std::to_string(graph.nodes.size());
    const ValueId output = value(name, shape);
    graph.nodes.push_back({name, op_type, "", std::move(inputs), {output}, {}});
    return output;
  }
};

}  // namespace

TEST_CASE(
    "products of weights count as far as others read them, and weights that nothing else reads") {
  Layers layers(64, 96);
  const std::int64_t positions = 2 * 4 * 64 * 96;
  const std::int64_t only_read_by_products = 2 * 4 * (96 * 96 + 96);
  CHECK(derived_constant_bytes(layers.graph) == positions + only_read_by_products);
  // As weights that a run multiplies by, too, they stay.
  for (const ValueId w : layers.weights)
    layers.graph.outputs.push_back(layers.node("MatMul", {layers.graph.inputs[0], w}, {2, 96}));
  CHECK(derived_constant_bytes(layers.graph) == positions + 2 * 4 * 96);
}

TEST_CASE("what grows behind a product of weights does not count, but what it grows from") {
  Layers layers(64, 96);
  const std::int64_t before = derived_constant_bytes(layers.graph);
  const ValueId wide = layers.node("Expand", {layers.positions[0]}, {8, 96, 64});
  layers.graph.outputs.push_back(layers.node("Add", {wide, wide}, {8, 96, 64}));
  CHECK(derived_constant_bytes(layers.graph) == before);
}

TEST_CASE("a product that reads what a run gives does not count, nor what a collective makes") {
  Layers layers(64, 96);
  for (Node& node : layers.graph.nodes)
    if (node.op_type == "Add") node.inputs[1] = layers.graph.inputs[0];
  // What is left are the products themselves, which the Adds read.
  CHECK(derived_constant_bytes(layers.graph) == 2 * 4 * (64 * 96 + 96 * 96));
  layers.graph.nodes[0].domain = collective_domain;
  CHECK(derived_constant_bytes(layers.graph) == 4 * (64 * 96 + 96 * 96));
}

TEST_CASE("products of weights of more than a quarter of all weights do not count") {
  const std::int64_t width = 2048;
  const auto replaced = 2 * 4 * (width * width + width);
  CHECK(derived_constant_bytes(Layers(512, width).graph) == replaced + 2 * 4 * 512 * width);
  CHECK(derived_constant_bytes(Layers(2048, width).graph) == replaced);
}

TEST_CASE("weights that are put in another order take the place of the old ones") {
  Layers layers(64, 96);
  const std::int64_t before = derived_constant_bytes(layers.graph);
  const ValueId gates = layers.constant("gates", {4, 96});
  const ValueId first = layers.node("Slice", {gates}, {2, 96});
  const ValueId sorted = layers.node("Concat", {first, first}, {4, 96});
  layers.graph.outputs.push_back(layers.node("Add", {sorted, layers.graph.inputs[0]}, {4, 96}));
  CHECK(derived_constant_bytes(layers.graph) == before + 4 * 4 * 96);
  layers.graph.outputs.push_back(gates);
  CHECK(derived_constant_bytes(layers.graph) == before);
}

TEST_CASE("an arena's bound has room for constants that are computed of others") {
  const Graph graph = Layers(64, 96).graph;
  const std::int64_t arena = with_arena_slack(plan_arena(value_lifetimes(graph)).bytes);
  CHECK(arena_bound(graph) == arena + 4096 + derived_constant_bytes(graph));
}
