#include "program/split_batch.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/error.h"
#include "unit/program/random_graph.h"
#include "unit/program/run_ranks.h"

using namespace autopar;
using namespace autopar::program;
using Catch::Matchers::Contains;
using graph::DataType;
using graph::Graph;
using graph::Tensor;
using graph::ValueId;

namespace {

/// Builds graphs node by node; every value is float32 unless it says otherwise.
struct Sketch {
  Graph graph;
  Sketch() { graph.opsets[""] = 20; }

  ValueId value(const std::string& name, graph::Shape shape) {
    return graph.add_value({name, DataType::float32, std::move(shape), std::nullopt});
  }
  ValueId input(const std::string& name, graph::Shape shape) {
    graph.inputs.push_back(value(name, std::move(shape)));
    return graph.inputs.back();
  }
  ValueId node(const std::string& name, const std::string& op_type, std::vector<ValueId> inputs,
               graph::Shape shape, std::map<std::string, graph::Attribute> attributes = {}) {
    const ValueId made = value(name + ":0", std::move(shape));
    graph.nodes.push_back({name, op_type, "", std::move(inputs), {made}, std::move(attributes)});
    return made;
  }
  ValueId ints(const std::string& name, std::vector<std::int64_t> numbers) {
    const auto size = static_cast<std::int64_t>(numbers.size());
    return graph.add_constant(name, Tensor::of_int64({size}, numbers));
  }
};

SplitBatch cut(const Graph& graph, int microbatches, const std::vector<std::string>& named = {}) {
  return split_batch(graph, microbatches, find_batch(graph, named));
}

/// Runs each part of the batch by itself and compares with the whole.
void check_rows(const Graph& whole, int microbatches, const std::vector<std::string>& named = {}) {
  const SplitBatch split = cut(whole, microbatches, named);
  graph::check_invariants(split.microbatch);
  Random random(3);
  std::vector<Tensor> inputs;
  for (const ValueId id : whole.inputs) inputs.push_back(random_input(random, whole.value(id)));
  const RankResult expected = run_graph(whole, inputs, nullptr);
  const auto part_of = [&](const Tensor& tensor, const std::string& name, int k) {
    const auto cut = split.ports.find(name);
    if (cut == split.ports.end()) return tensor;
    std::vector<graph::Range> ranges;
    for (const std::int64_t extent : tensor.shape()) ranges.push_back({0, extent});
    const std::int64_t rows = cut->second.rows;
    ranges[static_cast<std::size_t>(cut->second.dim)] = {k * rows, (k + 1) * rows};
    return tensor.slice(ranges).contiguous_copy();
  };
  for (int k = 0; k < microbatches; ++k) {
    std::vector<Tensor> part;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      part.push_back(part_of(inputs[i], whole.value(whole.inputs[i]).name, k));
    const RankResult got = run_graph(split.microbatch, part, nullptr);
    for (std::size_t o = 0; o < whole.outputs.size(); ++o) {
      const Tensor share = part_of(expected.outputs[o], whole.value(whole.outputs[o]).name, k);
      REQUIRE(got.outputs[o].shape() == share.shape());
      for (std::size_t i = 0; i < share.values<float>().size(); ++i)
        CHECK(got.outputs[o].values<float>()[i] == Approx(share.values<float>()[i]).margin(1e-5));
    }
  }
}

}  // namespace

TEST_CASE("a microbatch is a part of the batch, through reshapes and products") {
  Random random(1);
  Sketch s;
  const ValueId x = s.input("x", {6, 3, 8});
  const ValueId w = s.graph.add_constant("w", random_floats(random, {8, 10}));
  const ValueId flat = s.node("flat", "Reshape", {x, s.ints("flat shape", {18, 8})}, {18, 8});
  const ValueId product = s.node("product", "MatMul", {flat, w}, {18, 10});
  const ValueId back =
      s.node("back", "Reshape", {product, s.ints("shape", {6, 3, 10})}, {6, 3, 10});
  const ValueId turned = s.node("turned", "Transpose", {back}, {3, 6, 10},
                                {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
  s.graph.outputs = {product, s.node("end", "Softmax", {turned}, {3, 6, 10})};
  const SplitBatch split = cut(s.graph, 3);
  CHECK(split.ports == std::map<std::string, bundle::BatchInfo>{
                           {"x", {0, 2}}, {"product:0", {0, 6}}, {"end:0", {1, 2}}});
  for (const int microbatches : {2, 3, 6}) check_rows(s.graph, microbatches);
}

TEST_CASE("what has no batch is the same for every microbatch") {
  Random random(1);
  Sketch s;
  const ValueId x = s.input("x", {4, 8});
  const ValueId scale = s.input("scale", {8});
  const ValueId root = s.node("root", "Sqrt", {s.node("abs", "Abs", {scale}, {8})}, {8});
  const ValueId rows = s.graph.add_constant("rows", random_floats(random, {1, 8}));
  s.graph.outputs = {s.node("y", "Mul", {s.node("sum", "Add", {x, rows}, {4, 8}), root}, {4, 8}),
                     root};
  check_rows(s.graph, 2);
  CHECK(cut(s.graph, 4).ports.contains("root:0") == false);
}

TEST_CASE("constants with a row for each of the batch must have the same rows") {
  const auto with_rows = [](std::vector<float> rows) {
    Sketch s;
    const ValueId x = s.input("x", {2, 2});
    const ValueId position = s.graph.add_constant("position", Tensor::of_float({2, 2}, rows));
    s.graph.outputs = {s.node("y", "Add", {x, position}, {2, 2})};
    return s.graph;
  };
  check_rows(with_rows({1, 2, 1, 2}), 2);
  CHECK_THROWS_WITH(cut(with_rows({1, 2, 3, 4}), 2),
                    Contains("'position' differs from one part of the batch to another"));
}

TEST_CASE("what is computed of constants alone is cut as it is read") {
  Sketch s;
  const ValueId x = s.input("x", {4, 3});
  const ValueId row = s.graph.add_constant("row", Tensor::of_float({1, 3}, {{1, 2, 3}}));
  const ValueId rows = s.node("rows", "Expand", {row, s.ints("shape", {4, 3})}, {4, 3});
  const ValueId mask = s.node("mask", "Sqrt", {rows}, {4, 3});
  s.graph.outputs = {s.node("y", "Add", {x, mask}, {4, 3})};
  check_rows(s.graph, 2);
  check_rows(s.graph, 4);

  SECTION("but not where it differs from row to row") {
    Random random(1);
    s.graph.nodes[0].op_type = "CumSum";
    const ValueId all = s.graph.add_constant("all", random_floats(random, {4, 3}));
    s.graph.nodes[0].inputs = {all, s.graph.add_constant("axis", Tensor::of_int64({}, {{0}}))};
    CHECK_THROWS_AS(cut(s.graph, 2), Error);
  }
  SECTION("nor where it is read whole, too") {
    const ValueId w = s.node("product", "MatMul",
                             {x, s.node("turned", "Transpose", {mask}, {3, 4},
                                        {{"perm", std::vector<std::int64_t>{1, 0}}})},
                             {4, 4});
    s.graph.outputs.push_back(w);
    CHECK_THROWS_AS(cut(s.graph, 2), Error);
  }
}

TEST_CASE("what is computed across the batch is refused") {
  const auto refusal = [](auto build) {
    Sketch s;
    const ValueId x = s.input("x", {4, 6});
    s.graph.outputs = {build(s, x)};
    CHECK_THROWS_WITH(cut(s.graph, 2, {"x"}),
                      Contains("'op'") && Contains("computes across the batch"));
  };
  refusal([](Sketch& s, ValueId x) {
    return s.node("op", "ReduceSum", {x, s.ints("axes", {0})}, {1, 6});
  });
  refusal([](Sketch& s, ValueId x) {
    return s.node("op", "Softmax", {x}, {4, 6}, {{"axis", std::int64_t{0}}});
  });
  refusal([](Sketch& s, ValueId x) {
    const ValueId weights = s.node(
        "weights", "Softmax",
        {s.graph.add_constant("scores", graph::Tensor::zeros(graph::DataType::float32, {4, 6}))},
        {4, 6}, {{"axis", std::int64_t{0}}});
    return s.node("op", "Add", {x, weights}, {4, 6});
  });
  refusal([](Sketch& s, ValueId x) {
    const ValueId turned =
        s.node("turned", "Transpose", {x}, {6, 4}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    return s.node("op", "MatMul", {x, turned}, {4, 4});
  });
  refusal([](Sketch& s, ValueId x) {  // rows and columns are mixed
    return s.node("op", "Reshape", {x, s.ints("shape", {3, 8})}, {3, 8});
  });
}

TEST_CASE("microbatches and batched inputs that do not fit are refused") {
  Sketch s;
  const ValueId x = s.input("x", {4, 6});
  const ValueId table = s.input("table", {4, 6});
  s.input("scalar", {});
  const ValueId y = s.node("y", "Relu", {x}, {4, 6});
  s.graph.outputs = {y, s.node("sum", "ReduceSum", {table, s.ints("axes", {0})}, {1, 6})};
  CHECK_THROWS_WITH(cut(s.graph, 2, {"table"}), Contains("'sum'"));
  // What is read apart from the batch and cannot be cut is the same for all microbatches.
  CHECK(cut(s.graph, 2).ports ==
        std::map<std::string, bundle::BatchInfo>{{"x", {0, 2}}, {"y:0", {0, 2}}});
  CHECK(cut(s.graph, 2, {"x"}).ports ==
        std::map<std::string, bundle::BatchInfo>{{"x", {0, 2}}, {"y:0", {0, 2}}});
  CHECK_THROWS_WITH(cut(s.graph, 3, {"x"}), Contains("has a batch of 4"));
  CHECK_THROWS_WITH(cut(s.graph, 0), Contains("at least 1"));
  CHECK_THROWS_WITH(cut(s.graph, 2, {"z"}), Contains("no such input"));
  CHECK_THROWS_WITH(cut(s.graph, 2, {"scalar"}), Contains("no batch"));
  CHECK_THROWS_WITH(cut(s.graph, 2, {"x=2"}), Contains("has 2 dimensions"));
  CHECK_THROWS_WITH(cut(s.graph, 2, {"x=one"}), Contains("x=1"));
  CHECK(cut(s.graph, 3, {"x=1"}).ports ==
        std::map<std::string, bundle::BatchInfo>{{"x", {1, 2}}, {"y:0", {1, 2}}});
  CHECK(cut(s.graph, 1).ports.empty());
}

TEST_CASE("inputs that are cut together have as many rows") {
  Sketch s;
  const ValueId x = s.input("x", {4, 6});
  s.input("y", {8, 6});
  s.graph.outputs = {s.node("z", "Relu", {x}, {4, 6})};
  CHECK_THROWS_WITH(cut(s.graph, 2, {"x", "y"}),
                    Contains("--batch y") && Contains("8 rows") && Contains("'x' has 4"));
}

TEST_CASE(
    "a constant that is read by rows and whole is refused: parts know nothing of each other") {
  Sketch s;
  const ValueId x = s.input("x", {2, 2});
  const ValueId c = s.graph.add_constant("c", Tensor::of_float({2, 2}, {{1, 2, 1, 2}}));
  const ValueId sum = s.node("sum", "Add", {x, c}, {2, 2});
  s.graph.outputs = {s.node("product", "MatMul", {sum, c}, {2, 2})};
  CHECK_THROWS_WITH(cut(s.graph, 2), Contains("'c' is read both by rows and whole"));
}

namespace {

/// An LSTM in ONNX's own layout, [sequence, batch, features], or with the batch first. As exporters
/// write one of two layers, it takes its initial states out of a tensor of all layers'.
Graph lstm(bool batch_first, std::int64_t sequence, std::int64_t batch) {
  Random random(5);
  constexpr std::int64_t features = 3;
  constexpr std::int64_t hidden = 4;
  Sketch s;
  const graph::Shape in = batch_first ? graph::Shape{batch, sequence, features}
                                      : graph::Shape{sequence, batch, features};
  ValueId x = s.input("x", in);
  const std::vector<ValueId> states = {s.input("h0", {2, batch, hidden}),
                                       s.input("c0", {2, batch, hidden})};
  if (batch_first)
    x = s.node("turned", "Transpose", {x}, {sequence, batch, features},
               {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
  std::int64_t width = features;
  std::vector<std::vector<ValueId>> last(2);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    const std::string n = std::to_string(layer);
    std::vector<ValueId> initial;
    for (const ValueId state : states) {
      const std::string name = s.graph.value(state).name + n;
      initial.push_back(s.node("initial " + name, "Slice",
                               {state, s.ints("from " + name, {layer}),
                                s.ints("to " + name, {layer + 1}), s.ints("axis " + name, {0})},
                               {1, batch, hidden}));
    }
    const auto weight = [&](const std::string& name, graph::Shape shape) {
      return s.graph.add_constant(name + n, random_floats(random, std::move(shape)));
    };
    const ValueId y = s.value("y" + n, {sequence, 1, batch, hidden});
    const ValueId h = s.value("last h" + n, {1, batch, hidden});
    const ValueId c = s.value("last c" + n, {1, batch, hidden});
    s.graph.nodes.push_back(
        {"lstm" + n,
         "LSTM",
         "",
         {x, weight("w", {1, 4 * hidden, width}), weight("r", {1, 4 * hidden, hidden}),
          weight("b", {1, 8 * hidden}), graph::no_value, initial[0], initial[1]},
         {y, h, c},
         {{"hidden_size", hidden}}});
    last[0].push_back(h);
    last[1].push_back(c);
    x = s.node("flat" + n, "Squeeze", {y, s.ints("directions" + n, {1})},
               {sequence, batch, hidden});
    width = hidden;
  }
  const auto joined = [&](const std::string& name, const std::vector<ValueId>& parts) {
    return s.node(name, "Concat", parts, {2, batch, hidden}, {{"axis", std::int64_t{0}}});
  };
  if (batch_first)
    x = s.node("back", "Transpose", {x}, {batch, sequence, hidden},
               {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
  s.graph.outputs = {x, joined("hn", last[0]), joined("cn", last[1])};
  return s.graph;
}

}  // namespace

TEST_CASE("states whose batch is their second dimension are cut there, as the rules say") {
  // As many layers, steps and rows: positions say nothing.
  for (const auto& [sequence, batch] : {std::pair{2, 2}, {5, 4}, {4, 6}}) {
    for (const bool batch_first : {false, true}) {
      CAPTURE(sequence, batch, batch_first);
      const Graph graph = lstm(batch_first, sequence, batch);
      const std::int64_t rows = batch / 2;
      const int dim = batch_first ? 0 : 1;
      CHECK(cut(graph, 2).ports == std::map<std::string, bundle::BatchInfo>{
                                       {"x", {dim, rows}},
                                       {"h0", {1, rows}},
                                       {"c0", {1, rows}},
                                       {graph.value(graph.outputs[0]).name, {dim, rows}},
                                       {"hn:0", {1, rows}},
                                       {"cn:0", {1, rows}}});
      check_rows(graph, 2);
      check_rows(graph, batch);
      check_rows(graph, 2, {"h0=1"});
    }
  }
}

TEST_CASE("a model whose batch is its second dimension throughout is cut there") {
  Random random(3);
  Sketch s;
  const ValueId x = s.input("x", {5, 4, 8});
  const ValueId mask = s.input("mask", {5, 1, 4});
  const ValueId turned = s.node("turned", "Transpose", {mask}, {5, 4, 1},
                                {{"perm", std::vector<std::int64_t>{0, 2, 1}}});
  const ValueId steps = s.node("steps", "Softmax", {s.node("sum", "Add", {x, turned}, {5, 4, 8})},
                               {5, 4, 8}, {{"axis", std::int64_t{0}}});
  const ValueId w = s.graph.add_constant("w", random_floats(random, {8, 3}));
  s.graph.outputs = {s.node("y", "MatMul", {steps, w}, {5, 4, 3})};
  CHECK(cut(s.graph, 2).ports ==
        std::map<std::string, bundle::BatchInfo>{{"x", {1, 2}}, {"mask", {2, 2}}, {"y:0", {1, 2}}});
  check_rows(s.graph, 4);
}

TEST_CASE("models for two batches are the same but for shapes, or they compute with the size") {
  const auto model = [](std::int64_t batch, std::int64_t target, float scale) {
    Sketch s;
    const ValueId x = s.input("x", {batch, 2, 3});
    const ValueId flat =
        s.node("flat", "Reshape", {x, s.ints("shape", {target, 3})}, {batch * 2, 3});
    const ValueId c = s.graph.add_constant("scale", Tensor::of_float({1}, {{scale}}));
    s.graph.outputs = {s.node("scaled", "Mul", {flat, c}, {batch * 2, 3})};
    return s.graph;
  };
  CHECK(differ_in_batch_alone(model(9, 18, 0.5F), model(10, 20, 0.5F), 9, 10));
  CHECK(differ_in_batch_alone(model(9, -1, 0.5F), model(10, -1, 0.5F), 9, 10));
  CHECK_FALSE(differ_in_batch_alone(model(9, 18, 1.0F / 9), model(10, 20, 1.0F / 10), 9, 10));
  CHECK_FALSE(differ_in_batch_alone(model(9, 18, 0.5F), model(10, 19, 0.5F), 9, 10));
  Graph other = model(10, 20, 0.5F);
  other.nodes[1].op_type = "Div";
  CHECK_FALSE(differ_in_batch_alone(model(9, 18, 0.5F), other, 9, 10));
}

TEST_CASE("random graphs are cut rightly, or refused") {
  int were_cut = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Graph graph = RandomGraph(random).grow(pick(random, 2, 6));
    INFO("seed " << seed);
    int rows = 0;
    try {
      rows = static_cast<int>(find_batch(graph).rows);
      if (rows < 2) continue;
      cut(graph, rows);
    } catch (const Error&) {
      continue;
    }
    ++were_cut;
    check_rows(graph, rows);
  }
  CAPTURE(were_cut);
  CHECK(were_cut > 30);
}
