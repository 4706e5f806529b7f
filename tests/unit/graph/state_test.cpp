#include "graph/state.h"

#include <catch2/catch.hpp>

#include "graph/arena.h"
#include "graph/error.h"

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

TEST_CASE(
    "rows keep their places where padding makes an output longer, not where rows are joined") {
  const auto cache = [](const std::vector<std::string>& op_types) {
    Graph graph;
    const auto value = [&](const std::string& name, const Shape& shape) {
      return graph.add_value({name, DataType::float32, shape, std::nullopt});
    };
    const ValueId past = value("past", {2, 4}), row = value("row", {2, 1});
    graph.inputs = {past, row};
    ValueId last = past;
    for (const std::string& op_type : op_types) {
      const ValueId made = value(op_type, {2, 5});
      graph.nodes.push_back({op_type, op_type, "", {last, row}, {made}, {}});
      last = made;
    }
    graph.outputs = {last};
    return graph;
  };
  CHECK(keeps_places(cache({"Pad", "TensorScatter"}), {0, 0}));
  CHECK_FALSE(keeps_places(cache({"Concat"}), {0, 0}));
  CHECK_FALSE(keeps_places(cache({"Pad", "TensorScatter"}), {0, 1}));  // another input
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
