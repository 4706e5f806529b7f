#include "graph/state.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "graph/arena.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Matchers::Contains;

namespace {

/// Two layers' caches: the first grows by two rows a step, the second keeps its shape.
Graph caches() {
  Graph graph;
  const auto port = [&](const std::string& name, const Shape& shape, std::vector<ValueId>& ports) {
    ports.push_back(graph.add_value({name, DataType::float32, shape, std::nullopt}));
  };
  port("x", {1, 2}, graph.inputs);
  port("past.0.key", {1, 8, 4}, graph.inputs);
  port("past.1.key", {1, 8, 4}, graph.inputs);
  port("present.1.key", {1, 8, 4}, graph.outputs);
  port("present.0.key", {1, 10, 4}, graph.outputs);
  port("y", {1, 2}, graph.outputs);
  return graph;
}

std::string error_of(const Graph& graph, const std::vector<std::string>& patterns) {
  try {
    match_states(graph, patterns);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a pattern names pairs of outputs and inputs, in the order of outputs") {
  const Graph graph = caches();
  const std::vector<std::string> patterns = {"present.*.key=past.*.key", "y=x"};
  const auto states = match_states(graph, patterns);
  REQUIRE(states.size() == 3);
  CHECK(states[0].output == 0);
  CHECK(states[0].input == 2);
  CHECK(states[1].output == 1);
  CHECK(states[1].input == 1);
  CHECK(states[2].output == 2);
  CHECK(states[2].input == 0);
}

TEST_CASE("a pattern that names nothing or what does not fit is refused") {
  const Graph graph = caches();
  CHECK_THAT(error_of(graph, {"present.*"}), Contains("OUTPUT=INPUT"));
  CHECK_THAT(error_of(graph, {"present.*=past"}), Contains("OUTPUT=INPUT"));
  CHECK_THAT(error_of(graph, {"p*.*=past.*"}), Contains("OUTPUT=INPUT"));
  CHECK_THAT(error_of(graph, {"cache.*=past.*"}), Contains("no such output"));
  CHECK_THAT(error_of(graph, {"present.*=cache.*"}), Contains("no input 'cache.1.key'"));
  CHECK_THAT(error_of(graph, {"y=x", "y=x"}), Contains("'x' is given twice"));
  CHECK_THAT(error_of(graph, {"y=past.0.key"}), Contains("cannot follow") && Contains("1x8x4"));
  Graph other = caches();
  other.value(other.inputs[0]).type = DataType::float16;
  CHECK_THAT(error_of(other, {"y=x"}), Contains("float32") && Contains("float16"));
}

TEST_CASE("a state grows along one dimension, or not at all") {
  CHECK_FALSE(growth_of("o", {2, 3}, "i", {2, 3}));
  const auto growth = growth_of("o", {2, 5}, "i", {2, 3});
  REQUIRE(growth);
  CHECK(growth->dim == 1);
  CHECK(growth->rows == 2);
  CHECK_THROWS_AS(growth_of("o", {3, 5}, "i", {2, 3}), Error);
  CHECK_THROWS_AS(growth_of("o", {2, 2}, "i", {2, 3}), Error);
  CHECK_THROWS_AS(growth_of("o", {2}, "i", {2, 3}), Error);
}

namespace {

/// An operator that reads the buffer, then a constant if it has one, then an input.
struct BufferStep {
  std::string op_type;
  Shape shape;  ///< of what it makes
  std::vector<std::int64_t> constant = {};
  std::string domain = "";
};

const Shape past_shape{2, 4};

bool stays(const std::vector<BufferStep>& steps, std::size_t input = 0) {
  Graph graph;
  const auto value = [&](const std::string& name, const Shape& shape) {
    return graph.add_value({name, DataType::float32, shape, std::nullopt});
  };
  graph.inputs = {value("past", past_shape), value("row", past_shape)};
  ValueId last = graph.inputs.front();
  for (const BufferStep& step : steps) {
    std::vector<ValueId> read{last};
    if (!step.constant.empty()) {
      const Shape shape{static_cast<std::int64_t>(step.constant.size())};
      read.push_back(graph.add_constant("ints", Tensor::of_int64(shape, step.constant)));
    }
    read.resize(4, graph.inputs.back());
    last = value(step.op_type, step.shape);
    graph.nodes.push_back({step.op_type, step.op_type, step.domain, read, {last}, {}});
  }
  graph.outputs = {last};
  return keeps_places(graph, {0, input});
}

const BufferStep pad{"Pad", {2, 5}, {0, 0, 0, 1}};
const BufferStep scatter{"TensorScatter", {2, 5}};

}  // namespace

TEST_CASE("rows keep their places where padding behind makes a buffer longer") {
  CHECK(stays({pad, scatter}));
  CHECK(stays({pad, {"ScatterND", {2, 5}}}));
  CHECK(stays({{"Identity", past_shape}, pad, {"ScatterElements", {2, 5}}, {"Cast", {2, 5}}}));
  CHECK_FALSE(stays({{"Concat", {2, 5}}}));
  CHECK_FALSE(stays({pad, scatter}, 1));                         // another input
  CHECK_FALSE(stays({{"Pad", {2, 5}, {0, 1, 0, 0}}, scatter}));  // rows move behind padding
  CHECK_FALSE(stays({{"Pad", {2, 5}}, scatter}));                // which only a run tells
  CHECK_FALSE(stays({pad, {"Gather", {2, 5}}}));                 // rows are picked
  CHECK_FALSE(stays({{"TensorScatter", past_shape}}));           // it does not grow
  CHECK_FALSE(stays({pad, {"Concat", {2, 6}}}));                 // joined behind the padding
}

TEST_CASE("rows keep their places where a shard hands a buffer's parts around") {
  CHECK(stays({{"Slice", {1, 4}, {0}},
               {"Pad", {1, 5}, {0, 0, 0, 1}},
               {"AllGather", {2, 5}, {}, collective_domain}}));
  CHECK_FALSE(stays({{"Slice", {2, 3}, {0}}, pad}));  // the first rows may be gone
  CHECK_FALSE(stays({{"Pad", {2, 3}, {0, 0, 0, -1}}, {"Pad", {2, 5}, {0, 0, 0, 2}}}));
}

TEST_CASE("a state's input keeps its memory until the end of the run") {
  Graph graph;
  const auto value = [&](const std::string& name) {
    return graph.add_value({name, DataType::float32, {1024}, std::nullopt});
  };
  const ValueId x = value("x"), a = value("a"), b = value("b"), y = value("y");
  graph.nodes = {{"1", "Relu", "", {x}, {a}, {}},
                 {"2", "Relu", "", {a}, {b}, {}},
                 {"3", "Relu", "", {b}, {y}, {}}};
  graph.inputs = {x};
  graph.outputs = {y};
  CHECK(value_lifetimes(graph)[static_cast<std::size_t>(x)].last == 0);
  const std::int64_t without = arena_bound(graph);
  graph.states = {{0, 0}};
  CHECK(value_lifetimes(graph)[static_cast<std::size_t>(x)].last == 2);
  CHECK(arena_bound(graph) > without);
}
