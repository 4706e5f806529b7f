// What a run is said to need, without weights, against what an Executable on the device under test
// has, and against sums by hand.

#include "runtime/run_bytes.h"

#include <array>

#include "runtime/kernels/cuda_operators.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/graph_sketch.h"
#include "unit/runtime/kernels_under_test.h"
#include "unit/runtime/loops.h"
#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

PackedGraph packed(const Graph& graph, int microbatches = 1) {
  return packed_graph(graph, kernels_under_test(), microbatches);
}

std::int64_t measured_bytes(const Graph& graph, int microbatches = 1) {
  const Executable executable(graph, {.device = device_under_test(), .microbatches = microbatches});
  return executable.arena_bytes() - executable.scratch_bytes() +
         executable.derived_constant_bytes();
}

/// A random graph of products, normalisations, element-wise operators and views over matrices of
/// all sizes.
Spelling random_graph(Random& random) {
  Spelling s;
  const auto extent = [&] { return static_cast<std::int64_t>(1 + random() % 40); };
  std::vector<ValueId> values{s.in("x", {extent(), extent()}), s.in("y", {extent(), extent()})};
  for (std::size_t i = 0; i < 3 + random() % 20; ++i) {
    const ValueId x = values[random() % values.size()];
    const Shape shape = s.shape(x);
    switch (random() % 7) {
      case 0:
        values.push_back(s.matmul(x, s.weight({shape[1], extent()}, s.type)));
        break;
      case 1:
        values.push_back(s.unary("Tanh", x));
        break;
      case 2:
        values.push_back(s.binary("Add", x, s.weight({shape[1]}, s.type)));
        break;
      case 3:
        values.push_back(s.permuted(x, {1, 0}));
        break;
      case 4:
        values.push_back(s.reshaped(x, {shape[1], shape[0]}));
        break;
      case 5:
        values.push_back(s.unary("Softmax", s.scaled(x, 0.5)));
        break;
      default:  // folded
        values.push_back(s.binary("Mul", x, s.unary("Exp", s.weight(shape, s.type))));
    }
  }
  for (std::size_t i = 0; i < 1 + random() % 3; ++i) s.ends(values[random() % values.size()]);
  s.ends(values.back());
  return s;
}

TEST_CASE("A run of a random graph has what is predicted, for one microbatch and for several") {
  Random random(11);
  for (int round = 0; round < 100; ++round) {
    const Spelling s = random_graph(random);
    for (const int microbatches : {1, 3}) {
      CAPTURE(round, microbatches);
      CHECK(packed(s.graph, microbatches).bytes == measured_bytes(s.graph, microbatches));
    }
  }
}

TEST_CASE("Lifetimes are those of the graph as it is run, which the arena is packed by") {
  Random random(12);
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    const Graph graph = random_graph(random).graph;
    const PackedGraph of = packed(graph);
    REQUIRE(of.lifetimes.size() == of.graph.values.size());
    std::int64_t most = 0;
    for (int step = 0; step < static_cast<int>(of.graph.nodes.size()); ++step) {
      std::int64_t alive = 0;
      for (const graph::BufferLifetime& buffer : of.lifetimes)
        if (buffer.first <= step && step <= buffer.last) alive += graph::aligned(buffer.bytes);
      most = std::max(most, alive);
    }
    const Executable executable(graph, {.device = device_under_test()});
    const std::int64_t arena = graph::plan_arena(of.lifetimes).bytes;
    CHECK(arena >= most);
    CHECK(of.bytes == arena + executable.derived_constant_bytes());
  }
}

/// Two experts a vector of 96 out of eight, which gathered would be 24 matrices of 96 by 64.
Spelling mixture() {
  Spelling s;
  const ValueId x = s.in("x", {24, 96, 1});
  const ValueId gathered = s.op(
      "Gather", {s.weight({8, 64, 96}, s.type), s.in("i", {24}, DataType::int64)}, {24, 64, 96});
  s.ends(s.op("MatMul", {gathered, x}, {24, 64, 1}));
  return s;
}

TEST_CASE("Experts' matrices that are not copied are not counted") {
  CHECK(packed(mixture().graph).bytes == 24 * 96 * 4 + 24 * 8 + 24 * 64 * 4);
  CHECK(measured_bytes(mixture().graph) == packed(mixture().graph).bytes);
}

TEST_CASE("A weight that is read as bytes is not counted as the numbers that it stands for") {
  Spelling s;
  const ValueId scale = s.number(0.1, DataType::float32);
  const auto numbers = [&](ValueId bytes) {
    return s.typed(s.node("DequantizeLinear", {bytes, scale}, s.shape(bytes)), DataType::float32);
  };
  const ValueId x = numbers(s.in("x", {16, 512}, DataType::int8));
  s.ends(s.matmul(x, numbers(s.graph.add_constant("w", Tensor::zeros(DataType::int8, {512, 64})))));
  const bool multiplies_bytes = [&] {
    Graph fused = s.graph;
    passes::fuse_quantized_products(fused, kernels_under_test());
    return count(fused, "QuantizedMatMul") == 1;
  }();
  const std::int64_t in_and_out = 16 * 512 + 16 * 64 * 4;
  const std::int64_t numbers_bytes = (16 * 512 + 512 * 64) * 4;
  CHECK(packed(s.graph).bytes == (multiplies_bytes ? in_and_out : 16 * 512 + numbers_bytes));
  CHECK(measured_bytes(s.graph) == packed(s.graph).bytes);
}

TEST_CASE("Large weights may be absent: nothing is read of them") {
  Spelling s;
  const ValueId x = s.in("x", {3, 300});
  s.ends(s.matmul(x, s.graph.add_constant("w", Tensor::absent(DataType::float32, {300, 200}))));
  CHECK(packed(s.graph).bytes == 3648 + 2432);  // multiples of 64
}

TEST_CASE("Of several devices counts the one that needs most") {
  const Graph graph = mixture().graph;
  KernelTable copying = kernels_under_test();
  std::erase_if(copying.entries,
                [](const KernelEntry& entry) { return entry.op_type == "GatheredMatMul"; });
  const std::array either{&kernels_under_test(), static_cast<const KernelTable*>(&copying)};
  const std::int64_t most = packed_graph(graph, copying, 1).bytes;
  CHECK(most == (24 * 64 * 96 + 24 * 96 + 24 * 64) * 4);
  CHECK(packed_graph(graph, either, 1).bytes == most);
  CHECK(packed_graph(graph, std::span(either).first(1), 1).bytes == packed(graph).bytes);
}

TEST_CASE("values between fused operators are never made") {
  Builder builder;
  builder.graph.opsets[""] = 20;
  const auto x = builder.input("x", {64, 64});
  const auto product = builder.node("MatMul", {x, builder.constant("w", {64, 64})}, {64, 64});
  const auto y = builder.node("Neg", {product}, {64, 64});
  const auto z = builder.node("Tanh", {y}, {64, 64});
  const auto out = builder.node("Softmax", {z}, {64, 64}, {{"axis", std::int64_t{-1}}});
  builder.graph.outputs.push_back(out);
  const auto name = [&](graph::ValueId id) { return builder.graph.value(id).name; };
  const auto fused = fused_values(builder.graph, cpu_kernels());
  CHECK(fused.contains(name(y)));
  CHECK_FALSE(fused.contains(name(out)));
  CHECK_FALSE(fused.contains(name(product)));
  CHECK_FALSE(fused.contains(name(x)));
}

TEST_CASE(
    "images between convolutions have their channels last where a device has kernels for it") {
  Builder builder;
  builder.graph.opsets[""] = 20;
  const Shape image{1, 16, 8, 8};
  const auto conv = [&](graph::ValueId x, const char* weights) {
    return builder.node("Conv", {x, builder.constant(weights, {16, 16, 3, 3})}, image,
                        {{"pads", std::vector<std::int64_t>(4, 1)}});
  };
  const auto x = builder.input("x", image);
  // Reordered for the convolution, and as ONNX has it wherever a collective would move it.
  const auto weighed = builder.node("Softmax", {x}, image, {{"axis", std::int64_t{-1}}});
  const auto first = conv(weighed, "w0");
  const auto relu = builder.node("Relu", {first}, image);
  const auto second = conv(relu, "w1");
  const auto out = builder.node("Softmax", {second}, image, {{"axis", std::int64_t{-1}}});
  builder.graph.outputs.push_back(out);
  const auto name = [&](graph::ValueId id) { return builder.graph.value(id).name; };
  CHECK(channels_last_values(builder.graph, cpu_kernels()) ==
        ValueNames{name(first), name(relu), name(second)});
  CHECK(channels_last_values(builder.graph, cuda_operators()).empty());
}

}  // namespace
}  // namespace autopar::runtime
