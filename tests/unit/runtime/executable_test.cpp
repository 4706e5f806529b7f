#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <numeric>
#include <optional>
#include <random>

#include "graph/arena.h"
#include "loops.h"
#include "run_node.h"

namespace {
std::atomic<bool> counting_allocations{false};
std::atomic<int> allocations{0};
std::atomic<std::size_t> largest_allocation{0};

void count_allocation(std::size_t bytes) {
  if (!counting_allocations) return;
  ++allocations;
  largest_allocation = std::max(largest_allocation.load(), bytes);
}
}  // namespace

// Counts what run() allocates, on every thread.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  count_allocation(bytes);
  if (void* memory = std::malloc(std::max<std::size_t>(bytes, 1))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  count_allocation(bytes);
  return std::malloc(std::max<std::size_t>(bytes, 1));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace autopar::runtime {
namespace {

using namespace testing;
using graph::Graph;
using graph::ValueId;

/// Graphs by hand, all of float32.
struct Builder {
  Graph graph;

  ValueId input(const std::string& name, const Shape& shape) {
    graph.inputs.push_back(graph.add_value({name, DataType::float32, shape, std::nullopt}));
    return graph.inputs.back();
  }
  ValueId constant(const std::string& name, const Shape& shape, std::vector<double> values) {
    return graph.add_constant(name, tensor_of(DataType::float32, shape, values));
  }
  ValueId shape_constant(const std::string& name, const std::vector<std::int64_t>& values) {
    return graph.add_constant(name,
                              Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
  }
  ValueId node(const std::string& op_type, const std::vector<ValueId>& inputs, const Shape& shape,
               std::map<std::string, Attribute> attributes = {}) {
    const std::string name = op_type + std::to_string(graph.nodes.size());
    const ValueId output = graph.add_value({name + "_out", DataType::float32, shape, std::nullopt});
    graph.nodes.push_back({name, op_type, "", inputs, {output}, std::move(attributes)});
    return output;
  }
  Executable compile(int threads = 1, bool optimize = true) {
    check_invariants(graph);
    return Executable(graph, {.threads = threads, .collectives = nullptr, .optimize = optimize});
  }
};

Tensor floats(const Shape& shape, std::vector<double> values) {
  return tensor_of(DataType::float32, shape, values);
}

TEST_CASE("A chain through a view gives the same every time it runs") {
  Builder b;
  const ValueId x = b.input("x", {2, 3});
  const ValueId positive = b.node("Relu", {x}, {2, 3});
  const ValueId flat = b.node("Reshape", {positive, b.shape_constant("six", {6})}, {6});
  const ValueId sum = b.node("Add", {flat, b.constant("c", {6}, {1, 2, 3, 4, 5, 6})}, {6});
  b.graph.outputs = {sum};
  Executable executable = b.compile();
  for (int i = 0; i < 3; ++i)
    CHECK(doubles(run(executable, b.graph, {floats({2, 3}, {-1, 1, -2, 2, -3, 3})})[0]) ==
          std::vector<double>{1, 3, 3, 6, 5, 9});
}

TEST_CASE("A view of an input or a constant that leaves the graph has bytes of its own") {
  for (const bool optimize : {false, true}) {
    Builder b;
    const ValueId x = b.input("x", {2, 2});
    const ValueId c = b.constant("c", {2, 2}, {5, 6, 7, 8});
    const ValueId four = b.shape_constant("four", {4});
    const ValueId of_input = b.node("Reshape", {x, four}, {4});
    const ValueId of_view = b.node("Identity", {of_input}, {4});
    const ValueId of_constant = b.node("Reshape", {c, four}, {4});
    b.graph.outputs = {of_input, of_view, of_constant};
    Executable executable = b.compile(1, optimize);
    const auto out = run(executable, b.graph, {floats({2, 2}, {1, 2, 3, 4})});
    CHECK(doubles(out[0]) == std::vector<double>{1, 2, 3, 4});
    CHECK(doubles(out[1]) == std::vector<double>{1, 2, 3, 4});
    CHECK(doubles(out[2]) == std::vector<double>{5, 6, 7, 8});
    CHECK(executable.output(0).data != executable.input(0).data);
    CHECK(executable.output(1).data != executable.input(0).data);
  }
}

TEST_CASE("Inputs and constants may be outputs themselves, and a value may leave twice") {
  Builder b;
  const ValueId x = b.input("x", {2});
  const ValueId c = b.constant("c", {2}, {5, 6});
  const ValueId y = b.node("Neg", {x}, {2});
  b.graph.outputs = {x, c, y, y};
  Executable executable = b.compile();
  const auto out = run(executable, b.graph, {floats({2}, {1, 2})});
  CHECK(doubles(out[0]) == std::vector<double>{1, 2});
  CHECK(doubles(out[1]) == std::vector<double>{5, 6});
  CHECK(doubles(out[2]) == std::vector<double>{-1, -2});
  CHECK(doubles(out[3]) == std::vector<double>{-1, -2});
}

TEST_CASE("An input that nothing reads has memory that no other input has") {
  Builder b;
  const ValueId x = b.input("x", {100});
  b.input("unused", {100});
  b.graph.outputs = {b.node("Neg", {x}, {100})};
  Executable executable = b.compile();
  const std::vector<double> ones(100, 1);
  const std::vector<double> sevens(100, 7);
  const auto out = run(executable, b.graph, {floats({100}, ones), floats({100}, sevens)});
  CHECK(doubles(out[0]) == std::vector<double>(100, -1));
}

TEST_CASE("A graph without nodes runs") {
  Builder b;
  b.graph.outputs = {b.input("x", {2}), b.constant("c", {}, {3})};
  Executable executable = b.compile();
  CHECK(doubles(run(executable, b.graph, {floats({2}, {1, 2})})[1]) == std::vector<double>{3});
}

TEST_CASE("Unaligned and strided constants are read rightly, and their copies are counted") {
  std::vector<std::byte> file(17 + 24 * sizeof(float));
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0F);
  std::memcpy(file.data() + 17, values.data(), 24 * sizeof(float));
  const Tensor unaligned(DataType::float32, {4, 6}, file.data() + 17, nullptr);
  const Tensor columns = unaligned.slice(std::vector<graph::Range>{{0, 4}, {2, 4}});

  Builder b;
  const ValueId x = b.input("x", {4, 6});
  const ValueId sum = b.node("Add", {x, b.graph.add_constant("whole", unaligned)}, {4, 6});
  const ValueId y = b.input("y", {4, 2});
  const ValueId part = b.node("Add", {y, b.graph.add_constant("columns", columns)}, {4, 2});
  b.graph.outputs = {sum, part};
  Executable executable = b.compile();
  const auto out =
      run(executable, b.graph,
          {Tensor::zeros(DataType::float32, {4, 6}), floats({4, 2}, {1, 1, 1, 1, 1, 1, 1, 1})});
  CHECK(doubles(out[0])[23] == 23);
  CHECK(doubles(out[1]) == std::vector<double>{3, 4, 9, 10, 15, 16, 21, 22});
  CHECK(executable.derived_constant_bytes() == static_cast<std::int64_t>((24 + 8) * sizeof(float)));
}

TEST_CASE(
    "Weights that a kernel keeps in a form of its own are kept once, unless others read them") {
  const Shape images{1, 32, 9, 9};
  const Shape shape{32, 32, 3, 3};
  const Shape sums{1, 32, 7, 7};
  std::mt19937 random(3);
  const Tensor image = random_in(DataType::float32, images, random, -1, 1);
  auto memory = std::make_shared<const Tensor>(random_in(DataType::float32, shape, random, -1, 1));
  const std::weak_ptr<const Tensor> stored = memory;

  Builder given;  // as an input, which no kernel keeps
  given.graph.outputs = {
      given.node("Conv", {given.input("x", images), given.input("weights", shape)}, sums)};
  Executable from_input = given.compile();
  const auto expected = doubles(run(from_input, given.graph, {image, *memory})[0]);

  Builder b;
  const ValueId x = b.input("x", images);
  const ValueId weights =
      b.graph.add_constant("weights", Tensor(DataType::float32, shape, memory->data(), memory));
  b.graph.outputs = {b.node("Conv", {x, weights}, sums)};
  Executable once = b.compile();
  b.graph.outputs.push_back(b.node("Add", {weights, b.input("y", shape)}, shape));
  std::optional<Executable> twice = b.compile();
  memory.reset();
  b.graph.value(weights).constant->drop_data();

  const Tensor y = Tensor::zeros(DataType::float32, shape);
  CHECK_FALSE(stored.expired());
  check_close(run(*twice, b.graph, {image, y})[0], expected, 32 * 9);
  twice.reset();
  CHECK(stored.expired());
  b.graph.inputs.pop_back();
  b.graph.outputs.pop_back();
  check_close(run(once, b.graph, {image})[0], expected, 32 * 9);
}

TEST_CASE("Nodes of constants alone run once, when the graph is compiled") {
  Builder b;
  const ValueId x = b.input("x", {3});
  const ValueId c = b.constant("c", {3}, {1, 2, 3});
  const ValueId doubled = b.node("Add", {c, c}, {3});
  const ValueId negative = b.node("Neg", {doubled}, {3});
  b.graph.outputs = {b.node("Mul", {x, negative}, {3})};
  Executable executable = b.compile();
  CHECK(doubles(run(executable, b.graph, {floats({3}, {1, 1, 2})})[0]) ==
        std::vector<double>{-2, -4, -12});
  CHECK(executable.derived_constant_bytes() == 12);
  CHECK(executable.arena_bytes() == 128);  // x and the product
}

TEST_CASE("Errors name the node and the operator, or the constant") {
  Builder b;
  const ValueId x = b.input("x", {3});
  b.graph.outputs = {b.node("NoSuchOperator", {x}, {3})};
  b.graph.nodes[0].domain = "com.example";
  CHECK_THROWS_WITH(b.compile(), Catch::Contains("NoSuchOperator0") &&
                                     Catch::Contains("com.example::NoSuchOperator"));
  Builder absent;
  const ValueId w = absent.graph.add_constant("weight", Tensor::absent(DataType::float32, {3}));
  absent.graph.outputs = {absent.node("Neg", {w}, {3})};
  CHECK_THROWS_WITH(absent.compile(), Catch::Contains("weight"));
}

TEST_CASE("Constants are evaluated, and what no kernel serves is not") {
  Builder b;
  const ValueId c = b.constant("c", {2}, {1, 2});
  b.graph.outputs = {b.node("Neg", {c}, {2}), c};
  const auto results = evaluate_constants(b.graph);
  REQUIRE(results);
  CHECK(doubles((*results)[0]) == std::vector<double>{-1, -2});
  CHECK(doubles((*results)[1]) == std::vector<double>{1, 2});

  Builder view;
  const ValueId w = view.constant("w", {2}, {1, 2});
  view.graph.outputs = {view.node("Reshape", {w, view.shape_constant("s", {1, 2})}, {1, 2})};
  CHECK(doubles((*evaluate_constants(view.graph))[0]) == std::vector<double>{1, 2});

  b.graph.nodes[0].op_type = "NoSuchOperator";
  CHECK_FALSE(evaluate_constants(b.graph));

  Builder out_of_range;
  const ValueId table = out_of_range.constant("table", {2}, {1, 2});
  const ValueId index = out_of_range.shape_constant("index", {5});
  out_of_range.graph.outputs = {out_of_range.node("Gather", {table, index}, {1})};
  CHECK_FALSE(evaluate_constants(out_of_range.graph));
}

/// A random graph of element-wise operators, transposes, views, slices and concatenations over
/// 4x6 matrices in several guises.
Builder random_graph(std::mt19937& random) {
  Builder b;
  std::vector<ValueId> values = {b.input("x", {4, 6}), b.input("y", {4, 6}),
                                 b.constant("c", {4, 6}, std::vector<double>(24, 0.5))};
  const auto any = [&] { return values[random() % values.size()]; };
  const int nodes = 1 + static_cast<int>(random() % 25);
  for (int i = 0; i < nodes; ++i) {
    const std::string suffix = std::to_string(i);
    switch (random() % 6) {
      case 0:
        values.push_back(b.node("Add", {any(), any()}, {4, 6}));
        break;
      case 1:
        values.push_back(b.node("Tanh", {any()}, {4, 6}));
        break;
      case 2: {  // a matrix in another guise, and back
        const ValueId there =
            b.node("Reshape", {any(), b.shape_constant("to" + suffix, {6, 4})}, {6, 4});
        const ValueId between = random() % 2 ? b.node("Neg", {there}, {6, 4}) : there;
        values.push_back(b.node(random() % 2 ? "Transpose" : "Reshape", {between}, {4, 6}));
        break;
      }
      case 3:
        values.push_back(b.node("Identity", {any()}, {4, 6}));
        break;
      case 4: {
        const ValueId both = b.node("Concat", {any(), any()}, {8, 6}, {{"axis", std::int64_t{0}}});
        values.push_back(b.node(
            "Slice",
            {both, b.shape_constant("from" + suffix, {2}), b.shape_constant("until" + suffix, {6})},
            {4, 6}));
        break;
      }
      default:
        values.push_back(b.node("Mul", {any(), any()}, {4, 6}));
    }
  }
  for (std::size_t i = 0; i < 1 + random() % 4; ++i) b.graph.outputs.push_back(any());
  b.graph.outputs.push_back(values.back());
  return b;
}

/// Node by node, every value in memory of its own.
std::vector<std::vector<double>> reference(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<std::optional<Tensor>> values(graph.values.size());
  for (std::size_t v = 0; v < values.size(); ++v) values[v] = graph.values[v].constant;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values[static_cast<std::size_t>(graph.inputs[i])] = inputs[i];
  for (const graph::Node& node : graph.nodes) {
    NodeRun run{node.op_type, node.attributes, {}, {}};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      run.inputs.push_back(values[static_cast<std::size_t>(node.inputs[i])]);
      if (graph.is_constant(node.inputs[i])) run.constants.push_back(i);
    }
    const graph::Value& output = graph.value(node.outputs[0]);
    run.outputs = {{output.type, output.shape}};
    values[static_cast<std::size_t>(node.outputs[0])] = run_node(run)[0];
  }
  std::vector<std::vector<double>> outputs;
  for (const ValueId id : graph.outputs)
    outputs.push_back(doubles(*values[static_cast<std::size_t>(id)]));
  return outputs;
}

TEST_CASE("Random graphs agree with running node by node, and need no more memory than planned") {
  std::mt19937 random(20);
  for (int round = 0; round < 300; ++round) {
    Builder b = random_graph(random);
    const std::vector<Tensor> inputs = {random_in(DataType::float32, {4, 6}, random, -1, 1),
                                        random_in(DataType::float32, {4, 6}, random, -1, 1)};
    const auto truth = reference(b.graph, inputs);
    for (const bool optimize : {false, true}) {
      Executable executable = b.compile(1, optimize);
      for (int repetition = 0; repetition < 2; ++repetition) {
        const auto out = run(executable, b.graph, inputs);
        for (std::size_t i = 0; i < out.size(); ++i) {
          CAPTURE(round, i, optimize);
          REQUIRE(doubles(out[i]) == truth[i]);
        }
      }
      // Every value is 128 bytes. Views only save memory; but the plan leaves out an unread input,
      // and greedy packing may lose what one buffer takes.
      const auto separate = graph::plan_arena(graph::value_lifetimes(b.graph));
      CHECK(executable.arena_bytes() - executable.scratch_bytes() <= separate.bytes + 2 * 128);
    }
  }
}

void count_second_run(Executable& executable) {
  executable.run();
  allocations = 0;
  largest_allocation = 0;
  counting_allocations = true;
  executable.run();
  counting_allocations = false;
}

TEST_CASE("The second run allocates nothing") {
  for (const int threads : {1, 2}) {
    Builder b;
    const ValueId x = b.input("x", {64, 1024});
    const ValueId gelu = b.node("Gelu", {x}, {64, 1024});
    const ValueId sum = b.node("Add", {gelu, b.input("row", {1024})}, {64, 1024});
    const ValueId turned = b.node("Transpose", {sum}, {1024, 64});
    const ValueId flat = b.node("Reshape", {turned, b.shape_constant("flat", {65536})}, {65536});
    const ValueId rows = b.node("Gather", {turned, b.shape_constant("rows", {3, 1, 2})}, {3, 64});
    const ValueId joined = b.node("Concat", {rows, rows}, {6, 64}, {{"axis", std::int64_t{0}}});
    b.graph.outputs = {b.node("Tanh", {flat}, {65536}), joined};
    Executable executable = b.compile(threads);
    count_second_run(executable);
    CHECK(allocations == 0);
  }
}

TEST_CASE("What oneDNN computes allocates no more than a call's arguments") {
  Builder b;
  const ValueId x = b.input("x", {2, 16, 256});
  const ValueId rows = b.node("Softmax", {x}, {2, 16, 256});
  const ValueId columns = b.node("LogSoftmax", {x}, {2, 16, 256}, {{"axis", std::int64_t{1}}});
  const ValueId normal =
      b.node("LayerNormalization", {rows, b.input("scale", {256})}, {2, 16, 256});
  const ValueId product = b.node("MatMul", {normal, b.input("w", {256, 256})}, {2, 16, 256});
  const ValueId conv = b.node("Conv", {columns, b.input("k", {16, 16, 3})}, {2, 16, 254});
  b.graph.outputs = {product, conv};
  for (const int threads : {1, 2}) {
    Executable executable = b.compile(threads);
    count_second_run(executable);
    CHECK(largest_allocation < 4096);
  }
}

}  // namespace
}  // namespace autopar::runtime
