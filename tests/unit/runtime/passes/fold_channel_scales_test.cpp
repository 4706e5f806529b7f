// What is done to each channel of a convolution goes into its weights.

#include <catch2/catch.hpp>

#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using graph::Graph;
using graph::ValueId;
using Random = std::mt19937;

namespace {

/// A convolution of [2, 4, 5, 6] and what follows it.
struct Sketch {
  Graph graph;
  Random random;
  DataType type;
  ValueId x;

  explicit Sketch(unsigned seed, DataType of = DataType::float32) : random(seed), type(of) {
    graph.opsets = {{"", 20}};
    x = graph.add_value({"x", type, {2, 4, 5, 6}, std::nullopt});
    graph.inputs = {x};
  }

  ValueId constant(const Shape& shape, double low = -1, double high = 1) {
    return graph.add_constant("c" + std::to_string(graph.values.size()),
                              random_in(type, shape, random, low, high));
  }
  ValueId node(const std::string& op_type, const std::vector<ValueId>& inputs,
               std::map<std::string, Attribute> attributes = {}) {
    const std::string name = op_type + std::to_string(graph.nodes.size());
    const ValueId out = graph.add_value({name + "_out", type, {2, 6, 5, 6}, std::nullopt});
    graph.nodes.push_back({name, op_type, "", inputs, {out}, std::move(attributes)});
    return out;
  }
  ValueId conv(bool has_bias, std::int64_t groups = 1) {
    std::vector<ValueId> inputs = {x, constant({6, 4 / groups, 3, 3})};
    if (has_bias) inputs.push_back(constant({6}));
    return node("Conv", inputs,
                {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}, {"group", groups}});
  }
  ValueId normalization(ValueId of, std::map<std::string, Attribute> attributes = {}) {
    return node("BatchNormalization",
                {of, constant({6}), constant({6}), constant({6}), constant({6}, 0.1, 2)},
                std::move(attributes));
  }
};

std::string operators(Graph& graph) {
  remove_dead_nodes(graph);
  check_invariants(graph);
  std::string text;
  for (const graph::Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op_type;
  return text;
}

/// The graph with and without its rewrites gives the same.
void check_same(const Graph& graph, DataType type) {
  Random random(9);
  const Tensor in = random_in(type, {2, 4, 5, 6}, random, -1, 1);
  Executable plain(graph, {.optimize = false, .device = device_under_test()});
  Executable fused(graph, {.device = device_under_test()});
  const auto expected = run(plain, graph, {in});
  const auto actual = run(fused, graph, {in});
  for (std::size_t i = 0; i < expected.size(); ++i)
    check_close(actual[i], doubles(expected[i]), 20);
}

}  // namespace

TEST_CASE("A normalisation of a convolution's channels goes into its weights") {
  for (const DataType type : {DataType::float32, DataType::float64})
    for (const bool has_bias : {false, true})
      for (const std::int64_t groups : {1, 2}) {
        Sketch sketch(1, type);
        const ValueId normal =
            sketch.normalization(sketch.conv(has_bias, groups), {{"epsilon", 0.25F}});
        sketch.graph.outputs = {sketch.node("Relu", {normal})};
        check_same(sketch.graph, type);
        const std::int64_t bytes = passes::fold_channel_scales(sketch.graph, cpu_kernels());
        CHECK(operators(sketch.graph) == "Conv Relu");
        CHECK(bytes == (has_bias ? 0 : 6 * graph::bits_of(type) / 8));
      }
}

TEST_CASE("Products and sums with a number a channel go into a convolution one after the other") {
  Sketch sketch(2);
  const ValueId scaled = sketch.node("Mul", {sketch.constant({6, 1, 1}), sketch.conv(false)});
  const ValueId normal = sketch.normalization(scaled);
  const ValueId shifted = sketch.node("Add", {normal, sketch.constant({1, 6, 1, 1})});
  sketch.graph.outputs = {sketch.node("Mul", {shifted, sketch.constant({})})};
  check_same(sketch.graph, DataType::float32);
  CHECK(passes::fold_channel_scales(sketch.graph, cpu_kernels()) == 6 * sizeof(float));
  CHECK(operators(sketch.graph) == "Conv");
}

TEST_CASE("A convolution keeps its weights where others read it or a factor is none of a channel") {
  Sketch read_twice(3);
  const ValueId both = read_twice.conv(true);
  read_twice.graph.outputs = {read_twice.normalization(both), read_twice.node("Relu", {both})};
  check_same(read_twice.graph, DataType::float32);
  CHECK(passes::fold_channel_scales(read_twice.graph, cpu_kernels()) == 0);
  CHECK(operators(read_twice.graph) == "Conv BatchNormalization Relu");

  Sketch leaves(4);
  const ValueId out = leaves.conv(true);
  leaves.graph.outputs = {out, leaves.normalization(out)};
  CHECK(passes::fold_channel_scales(leaves.graph, cpu_kernels()) == 0);
  CHECK(operators(leaves.graph) == "Conv BatchNormalization");

  Sketch by_place(5);
  const ValueId row = by_place.node("Mul", {by_place.conv(true), by_place.constant({6})});
  by_place.graph.outputs = {by_place.node("Add", {row, by_place.constant({5, 6})})};
  check_same(by_place.graph, DataType::float32);
  CHECK(passes::fold_channel_scales(by_place.graph, cpu_kernels()) == 0);
  CHECK(operators(by_place.graph) == "Conv Mul Add");

  Sketch half(6, DataType::float16);
  half.graph.outputs = {half.normalization(half.conv(true))};
  CHECK(passes::fold_channel_scales(half.graph, cpu_kernels()) == 0);

  Sketch trains(7);
  trains.graph.outputs = {
      trains.normalization(trains.conv(true), {{"training_mode", std::int64_t{1}}})};
  CHECK(passes::fold_channel_scales(trains.graph, cpu_kernels()) == 0);
}

TEST_CASE("A factor stays beside weights that would not hold their products with it") {
  const auto left = [](double weight, const std::vector<double>& factors, double bias = 0.5) {
    Sketch sketch(8);
    ValueId at = sketch.node("Conv", {sketch.x, sketch.constant({6, 4, 1, 1}, weight, 2 * weight),
                                      sketch.constant({6}, bias, 2 * bias)});
    for (const double factor : factors)
      at = sketch.node("Mul", {at, sketch.constant({}, factor, factor)});
    sketch.graph.outputs = {at};
    const Graph before = sketch.graph;
    passes::fold_channel_scales(sketch.graph, cpu_kernels());
    const std::string found = operators(sketch.graph);
    if (found == "Conv") check_same(before, DataType::float32);
    return found;
  };
  CHECK(left(1, {1e20, 1e-20}) == "Conv");
  CHECK(left(1e-20, {1e20}, 1e-20) == "Conv");
  CHECK(left(1e-37, {1e20, 1e17}, 1e-37) == "Conv");
  CHECK(left(1e-38, {0.125}) == "Conv");
  CHECK(left(1e-25, {1e-20}) == "Conv Mul");  // the product has fewer digits
  CHECK(left(1, {1e20, 1e25}) == "Conv Mul");
  CHECK(left(1e-20, {1e25}, 1e20) == "Conv Mul");  // the bias
  CHECK(left(1, {std::numeric_limits<double>::infinity()}) == "Conv Mul");
}
