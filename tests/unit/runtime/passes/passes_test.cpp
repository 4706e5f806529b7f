#include <catch2/catch.hpp>

#include "graph/arena.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/graph_sketch.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using graph::Graph;
using graph::ValueId;

/// "Transpose FusedMatMul(transB)", the nodes after dead ones are gone.
std::string operators(Graph& graph) {
  remove_dead_nodes(graph);
  check_invariants(graph);
  std::string text;
  for (const graph::Node& node : graph.nodes) {
    text += text.empty() ? "" : " ";
    text += node.op_type;
    for (const char* flag : {"transA", "transB"})
      if (node.int_attribute(flag, 0) != 0) text += std::string("(") + flag + ")";
    if (node.op_type == "FusedMatMul" && node.inputs.size() == 3) text += "(bias)";
  }
  return text;
}

TEST_CASE("A transposed weight is read as it lies") {
  Builder b;
  const ValueId x = b.input("x", {2, 3, 4});
  const ValueId w = b.transpose(b.constant("w", {5, 4}), {1, 0});
  b.graph.outputs = {b.node("MatMul", {x, w}, {2, 3, 5}), b.node("MatMul", {x, w}, {2, 3, 5})};
  passes::fuse_transposes(b.graph, cpu_kernels());
  CHECK(operators(b.graph) == "FusedMatMul(transB) FusedMatMul(transB)");
}

TEST_CASE("A key's transpose in attention keeps its rows and leaves the swap to the product") {
  Builder b;
  const ValueId q = b.input("q", {1, 2, 8, 4});
  const ValueId k = b.transpose(b.input("k", {1, 8, 2, 4}), {0, 2, 3, 1});
  b.graph.outputs = {b.node("MatMul", {q, k}, {1, 2, 8, 8})};
  passes::fuse_transposes(b.graph, cpu_kernels());
  CHECK(operators(b.graph) == "Transpose FusedMatMul(transB)");
  CHECK(b.graph.nodes[0].ints_attribute("perm", {}) == std::vector<std::int64_t>{0, 2, 1, 3});
  CHECK(b.graph.value(b.graph.nodes[0].outputs[0]).shape == Shape{1, 2, 8, 4});
}

TEST_CASE("A transpose of both operands fuses into both") {
  Builder b;
  const ValueId x = b.transpose(b.input("x", {4, 3}), {1, 0});
  const ValueId y = b.transpose(b.input("y", {5, 4}), {1, 0});
  b.graph.outputs = {b.node("MatMul", {x, y}, {3, 5})};
  passes::fuse_transposes(b.graph, cpu_kernels());
  CHECK(operators(b.graph) == "FusedMatMul(transA)(transB)");
}

TEST_CASE("A transpose that others read, that leaves the graph, or that moves rows, stays") {
  Builder others;
  const ValueId x = others.input("x", {3, 4});
  const ValueId t = others.transpose(others.input("w", {5, 4}), {1, 0});
  others.graph.outputs = {others.node("MatMul", {x, t}, {3, 5}), others.node("Neg", {t}, {4, 5})};
  passes::fuse_transposes(others.graph, cpu_kernels());
  CHECK(operators(others.graph) == "Transpose MatMul Neg");

  Builder leaves;
  const ValueId out = leaves.transpose(leaves.input("w", {5, 4}), {1, 0});
  leaves.graph.outputs = {leaves.node("MatMul", {leaves.input("x", {3, 4}), out}, {3, 5}), out};
  passes::fuse_transposes(leaves.graph, cpu_kernels());
  CHECK(operators(leaves.graph) == "Transpose MatMul");

  Builder rows;
  const ValueId v = rows.transpose(rows.input("v", {1, 8, 2, 4}), {0, 2, 1, 3});
  rows.graph.outputs = {rows.node("MatMul", {rows.input("p", {1, 2, 8, 8}), v}, {1, 2, 8, 4})};
  passes::fuse_transposes(rows.graph, cpu_kernels());
  CHECK(operators(rows.graph) == "Transpose MatMul");
}

TEST_CASE("A Where whose constant condition is the same everywhere is what it takes") {
  for (const std::vector<std::uint8_t>& condition :
       {std::vector<std::uint8_t>{1, 1}, std::vector<std::uint8_t>{0, 0},
        std::vector<std::uint8_t>{1, 0}}) {
    Builder b;
    const ValueId x = b.node("Relu", {b.input("x", {2, 3})}, {2, 3});
    const ValueId y = b.node("Neg", {b.input("y", {2, 3})}, {2, 3});
    const ValueId c = b.graph.add_constant(
        "c", graph::Tensor::of<std::uint8_t>(DataType::boolean, {2, 1}, condition));
    b.graph.outputs = {b.node("Exp", {b.node("Where", {c, x, y}, {2, 3})}, {2, 3})};
    passes::drop_identities(b.graph, cpu_kernels());
    const std::string left =
        condition[0] == condition[1] ? (condition[0] != 0 ? "Relu" : "Neg") : "Relu Neg Where";
    CHECK(operators(b.graph) == left + " Exp");
  }
  // What is broadcast is not what it becomes.
  Builder b;
  const ValueId c = b.graph.add_constant(
      "c", graph::Tensor::of<std::uint8_t>(DataType::boolean, {}, std::vector<std::uint8_t>{1}));
  const ValueId chosen = b.node("Where", {c, b.input("x", {1, 3}), b.input("y", {2, 3})}, {2, 3});
  b.graph.outputs = {b.node("Exp", {chosen}, {2, 3})};
  passes::drop_identities(b.graph, cpu_kernels());
  CHECK(operators(b.graph) == "Where Exp");
}

TEST_CASE("A bias goes into the product, whichever side of the Add it stands on") {
  for (const bool bias_first : {false, true}) {
    Builder b;
    const ValueId product =
        b.node("MatMul", {b.input("x", {2, 3, 4}), b.constant("w", {4, 5})}, {2, 3, 5});
    const ValueId bias = b.constant("bias", bias_first ? Shape{1, 5} : Shape{5});
    b.graph.outputs = {b.node(
        "Add", bias_first ? std::vector{bias, product} : std::vector{product, bias}, {2, 3, 5})};
    passes::fuse_biases(b.graph, cpu_kernels());
    CHECK(operators(b.graph) == "FusedMatMul(bias)");
    CHECK(b.graph.value(b.graph.nodes[0].inputs[2]).shape == Shape{5});
  }
}

TEST_CASE("What is no bias stays an Add") {
  const auto after = [](const Shape& addend, bool is_constant, bool product_leaves) {
    Builder b;
    const ValueId product =
        b.node("MatMul", {b.input("x", {5, 4}), b.constant("w", {4, 5})}, {5, 5});
    const ValueId y = is_constant ? b.constant("y", addend) : b.input("y", addend);
    b.graph.outputs = {b.node("Add", {product, y}, {5, 5})};
    if (product_leaves) b.graph.outputs.push_back(product);
    passes::fuse_biases(b.graph, cpu_kernels());
    return operators(b.graph);
  };
  CHECK(after({5}, true, false) == "FusedMatMul(bias)");
  CHECK(after({5, 1}, true, false) == "MatMul Add");
  CHECK(after({5, 5}, true, false) == "MatMul Add");
  CHECK(after({1}, true, false) == "MatMul Add");
  CHECK(after({5}, false, false) == "MatMul Add");
  CHECK(after({5}, true, true) == "MatMul Add");
}

TEST_CASE("Constants fold through chains, but not into something much larger") {
  Builder b;
  const ValueId x = b.input("x", {3});
  const ValueId c = b.node("Neg", {b.node("Exp", {b.constant("c", {3})}, {3})}, {3});
  const ValueId small = b.node("Mul", {x, c}, {3});
  const ValueId big = b.node(
      "Expand",
      {b.constant("one", {1}),
       b.graph.add_constant("to", Tensor::of_int64({1}, std::array<std::int64_t, 1>{1 << 20}))},
      {1 << 20});
  b.graph.outputs = {small, b.node("Neg", {big}, {1 << 20})};
  CHECK(passes::fold_constants(b.graph) == 12);  // Exp's are read no more
  CHECK(operators(b.graph) == "Mul Expand Neg");
  CHECK(doubles(*b.graph.value(b.graph.nodes[0].inputs[1]).constant) ==
        std::vector<double>{-1, -1, -1});
}

TEST_CASE("A view of a weight folds without a copy") {
  Builder b;
  const ValueId w = b.constant("w", {2, 3});
  const ValueId flat = b.node("Reshape", {w}, {6});
  b.graph.outputs = {b.node("Add", {b.input("x", {6}), flat}, {6})};
  CHECK(passes::fold_constants(b.graph) == 0);
  CHECK(b.graph.value(flat).constant->data() == b.graph.value(w).constant->data());
}

TEST_CASE("What is folded stays within the memory that is promised") {
  Builder b;
  ValueId sum = b.input("x", {64, 64});
  for (int i = 0; i < 8; ++i) {  // each folded for itself would be there throughout
    const std::string name = std::to_string(i);
    const ValueId row = b.constant("row" + name, {64});
    const ValueId shape = b.graph.add_constant(
        "shape" + name, Tensor::of_int64({2}, std::array<std::int64_t, 2>{64, 64}));
    sum = b.node("MatMul", {sum, b.node("Expand", {row, shape}, {64, 64})}, {64, 64});
  }
  b.graph.outputs = {sum};
  const Executable executable(b.graph, {.threads = 1, .collectives = nullptr});
  CHECK(executable.derived_constant_bytes() + executable.arena_bytes() -
            executable.scratch_bytes() <=
        graph::arena_bound(b.graph));
}

TEST_CASE("Products of weights are computed once, though their results take memory in every run") {
  Builder b;
  ValueId sum = b.input("x", {4, 512});
  const ValueId table = b.constant("table", {256, 512});
  for (const std::string layer : {"a", "b", "c", "d"}) {
    const ValueId rows = b.node("MatMul", {table, b.constant("w" + layer, {512, 512})}, {256, 512});
    const ValueId scores = b.node("MatMul", {sum, b.transpose(rows, {1, 0})}, {4, 256});
    sum = b.node("MatMul", {scores, table}, {4, 512});
  }
  b.graph.outputs = {sum};
  const Executable executable(b.graph, {.threads = 1, .collectives = nullptr});
  CHECK(executable.derived_constant_bytes() >= 4 * 4 * 256 * 512);
  CHECK(executable.derived_constant_bytes() + executable.arena_bytes() -
            executable.scratch_bytes() <=
        graph::arena_bound(b.graph));
}

// Chains

/// tanh-GELU as GPT-2 spells it.
ValueId spelled_gelu(Builder& b, ValueId x, const Shape& shape) {
  const auto scalar = [&](const std::string& name, double value) {
    return b.graph.add_constant(name, tensor_of(b.graph.value(x).type, {}, {value}));
  };
  const ValueId half = b.node("Mul", {x, scalar("half", 0.5)}, shape);
  const ValueId cube = b.node("Pow", {x, scalar("three", 3)}, shape);
  const ValueId scaled = b.node("Mul", {cube, scalar("c", 0.044715)}, shape);
  const ValueId sum = b.node("Add", {x, scaled}, shape);
  const ValueId inner = b.node("Mul", {sum, scalar("root", 0.7978845608)}, shape);
  const ValueId bent = b.node("Tanh", {inner}, shape);
  const ValueId shifted = b.node("Add", {bent, scalar("one", 1)}, shape);
  return b.node("Mul", {half, shifted}, shape);
}

Tensor run_with(const Graph& graph, const std::vector<Tensor>& inputs, bool optimize) {
  Executable executable(graph, {.threads = 2, .collectives = nullptr, .optimize = optimize});
  return run(executable, graph, inputs)[0];
}

TEST_CASE("GELU in eight nodes becomes one chain with the same bits, for every float type") {
  std::mt19937 random(1);
  for (const DataType type : float_types) {
    Builder b;
    const Shape shape{37, 1001};
    const ValueId x = b.input("x", shape);
    b.graph.value(x).type = type;
    b.graph.outputs = {spelled_gelu(b, x, shape)};
    for (graph::Value& value : b.graph.values) value.type = type;
    const Tensor input = random_in(type, shape, random, -4, 4);
    const auto apart = doubles(run_with(b.graph, {input}, false));
    passes::fuse_elementwise_chains(b.graph, cpu_kernels());
    CHECK(operators(b.graph) == "ElementwiseChain");
    CHECK(doubles(run_with(b.graph, {input}, false)) == apart);
  }
}

TEST_CASE("A chain stops at a result that others read, that leaves, or that has another shape") {
  Builder b;
  const ValueId x = b.input("x", {4, 1});
  const ValueId y = b.input("y", {4, 5});
  const ValueId small = b.node("Exp", {x}, {4, 1});
  const ValueId wide = b.node("Mul", {y, small}, {4, 5});
  const ValueId read_twice = b.node("Tanh", {wide}, {4, 5});
  const ValueId leaves = b.node("Neg", {read_twice}, {4, 5});
  const ValueId turned = b.node("Transpose", {read_twice}, {5, 4});
  const ValueId last = b.node("Abs", {b.node("Relu", {leaves}, {4, 5})}, {4, 5});
  b.graph.outputs = {leaves, turned, last};
  passes::fuse_elementwise_chains(b.graph, cpu_kernels());
  // Exp | Mul Tanh | Neg | Transpose | Relu Abs
  CHECK(operators(b.graph) == "Exp ElementwiseChain Neg Transpose ElementwiseChain");
}

TEST_CASE("A value that is read several times inside one chain is in it") {
  Builder b;
  const ValueId x = b.input("x", {8});
  const ValueId s = b.node("Sigmoid", {x}, {8});
  const ValueId square = b.node("Mul", {s, s}, {8});
  const ValueId cube = b.node("Mul", {square, s}, {8});
  b.graph.outputs = {b.node("Add", {cube, x}, {8})};
  std::mt19937 random(2);
  const Tensor input = random_in(DataType::float32, {8}, random, -1, 1);
  const auto apart = doubles(run_with(b.graph, {input}, false));
  passes::fuse_elementwise_chains(b.graph, cpu_kernels());
  CHECK(operators(b.graph) == "ElementwiseChain");
  CHECK(b.graph.nodes[0].inputs == std::vector<ValueId>{x});
  CHECK(doubles(run_with(b.graph, {input}, false)) == apart);
}

TEST_CASE("Attributes, left-out operands, casts and comparisons go along in a chain") {
  Builder b;
  const ValueId x = b.input("x", {3, 4});
  const ValueId low = b.constant("low", {});
  const ValueId leaky = b.node("LeakyRelu", {x}, {3, 4}, {{"alpha", 0.5F}});
  const ValueId top = b.node("Clip", {leaky, graph::no_value, low}, {3, 4});
  const ValueId positive = b.node("Greater", {x, low}, {3, 4});
  b.graph.value(positive).type = DataType::boolean;
  const ValueId rounded = b.node("Cast", {x}, {3, 4}, {{"to", std::int64_t{10}}});
  b.graph.value(rounded).type = DataType::float16;
  const ValueId back = b.node("Cast", {rounded}, {3, 4}, {{"to", std::int64_t{1}}});
  b.graph.outputs = {b.node("Where", {positive, back, top}, {3, 4})};
  std::mt19937 random(3);
  const Tensor input = random_in(DataType::float32, {3, 4}, random, -2, 2);
  const auto apart = doubles(run_with(b.graph, {input}, false));
  passes::fuse_elementwise_chains(b.graph, cpu_kernels());
  CHECK(operators(b.graph) == "ElementwiseChain");
  CHECK(doubles(run_with(b.graph, {input}, false)) == apart);
  for (std::size_t i = 0; i < 12; ++i) {
    const double value = doubles(input)[i];
    CHECK(apart[i] == (value > 0 ? to_float(to_float16(static_cast<float>(value))) : value / 2));
  }
}

TEST_CASE("A long run of nodes becomes several chains") {
  Builder b;
  const ValueId x = b.input("x", {5, 700});
  ValueId y = x;
  for (int i = 0; i < 60; ++i)
    y = b.node(i % 2 ? "Tanh" : "Add", i % 2 ? std::vector{y} : std::vector{y, x}, {5, 700});
  b.graph.outputs = {y};
  std::mt19937 random(4);
  const Tensor input = random_in(DataType::float32, {5, 700}, random, -1, 1);
  const auto apart = doubles(run_with(b.graph, {input}, false));
  passes::fuse_elementwise_chains(b.graph, cpu_kernels());
  remove_dead_nodes(b.graph);
  CHECK(b.graph.nodes.size() == 3);
  CHECK(doubles(run_with(b.graph, {input}, false)) == apart);
}

TEST_CASE("A chain that would need more memory than the graph as it is is left out") {
  Builder b;
  // Four large inputs are summed early to one that is read late: the chain would keep all four.
  const Shape large{1000};
  std::vector<ValueId> inputs;
  for (const char* name : {"a", "b", "c", "d"}) inputs.push_back(b.input(name, large));
  const ValueId sum = b.node("Sum", inputs, large);
  const ValueId x = b.input("x", {10, 100});
  ValueId y = b.node(
      "Reshape",
      {x, b.graph.add_constant("s", Tensor::of_int64({1}, std::array<std::int64_t, 1>{1000}))},
      large);
  for (int i = 0; i < 3; ++i)
    y = b.node("Concat", {y, y}, {1000LL << (i + 1)}, {{"axis", std::int64_t{0}}});
  const ValueId part = b.node(
      "Slice",
      {y, b.graph.add_constant("from", Tensor::of_int64({1}, std::array<std::int64_t, 1>{0})),
       b.graph.add_constant("to", Tensor::of_int64({1}, std::array<std::int64_t, 1>{1000}))},
      large);
  b.graph.outputs = {b.node("Mul", {sum, part}, large)};
  Graph fused = b.graph;
  passes::fuse_elementwise_chains(fused, cpu_kernels());
  CHECK(operators(fused).ends_with("ElementwiseChain"));
  passes::optimize(b.graph, cpu_kernels());
  CHECK(operators(b.graph).ends_with("Mul"));
}

}  // namespace
}  // namespace autopar::runtime
