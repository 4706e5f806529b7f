#include "graph/stage_graph.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace autopar::graph;

namespace {

/// a = f(x); b = g(a, w); c = h(b, y, a); outputs b and c, w a weight, z unread.
struct Sample {
  Graph graph;
  ValueId x, y, z, w, a, b, c;

  Sample() {
    const auto add = [this](const char* name) {
      return graph.add_value({name, DataType::float32, {2}, std::nullopt});
    };
    x = add("x");
    y = add("y");
    z = add("z");
    w = graph.add_constant("w", Tensor::of_float({2}, {{1, 2}}));
    a = add("a");
    b = add("b");
    c = add("c");
    graph.nodes = {{"f", "Relu", "", {x}, {a}, {}},
                   {"g", "Add", "", {a, w}, {b}, {}},
                   {"h", "Sum", "", {b, y, a, no_value, w}, {c}, {}}};
    graph.inputs = {x, y, z};
    graph.outputs = {b, c};
    graph.opsets[""] = 18;
  }
};

std::vector<std::string> names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> result;
  for (const ValueId id : ids) result.push_back(graph.value(id).name);
  return result;
}
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a stage has its nodes, what they read, and what others read of it") {
  const Sample sample;
  const StageCutter cutter(sample.graph);
  CHECK(cutter.crossing(1) == std::vector{sample.a});
  CHECK(cutter.crossing(2) == std::vector{sample.a, sample.b});

  const StageGraph first = cutter.cut(0, 1);
  CHECK(names(first.graph, first.graph.inputs) == Names{"x", "z"});
  CHECK(first.model_inputs == first.graph.inputs);
  CHECK(first.received.empty());
  CHECK(first.model_outputs.empty());
  CHECK(names(first.graph, first.sent) == Names{"a"});
  CHECK(first.graph.outputs == first.sent);

  const StageGraph second = cutter.cut(1, 2);
  CHECK(second.model_inputs.empty());
  CHECK(names(second.graph, second.received) == Names{"a"});
  CHECK(names(second.graph, second.model_outputs) == Names{"b"});
  CHECK(names(second.graph, second.sent) == Names{"a", "b"});  // a passes through
  CHECK(names(second.graph, second.graph.outputs) == Names{"b", "a"});
  const auto weight = std::ranges::find(second.graph.values, "w", &Value::name);
  REQUIRE(weight != second.graph.values.end());
  CHECK(weight->constant->data() == sample.graph.value(sample.w).constant->data());

  const StageGraph third = cutter.cut(2, 3);
  CHECK(names(third.graph, third.graph.inputs) == Names{"y", "a", "b"});
  CHECK(names(third.graph, third.received) == Names{"a", "b"});
  CHECK(names(third.graph, third.graph.outputs) == Names{"c"});
  CHECK(third.sent.empty());
  for (const StageGraph* stage : {&first, &second, &third}) check_invariants(stage->graph);
}

TEST_CASE("an output that no node makes belongs to the first stage") {
  Sample sample;
  sample.graph.outputs = {sample.w, sample.y, sample.c};
  const StageCutter cutter(sample.graph);
  const StageGraph first = cutter.cut(0, 2);
  CHECK(names(first.graph, first.graph.inputs) == Names{"x", "y", "z"});
  CHECK(names(first.graph, first.model_outputs) == Names{"w", "y"});
  CHECK(names(first.graph, first.sent) == Names{"a", "b"});
  const StageGraph last = cutter.cut(2, 3);
  CHECK(names(last.graph, last.model_outputs) == Names{"c"});
}

TEST_CASE("a state is in one stage: what reads its input, and what makes its output") {
  Graph graph;
  const auto add = [&](const std::string& name) {
    return graph.add_value({name, DataType::float32, {2}, std::nullopt});
  };
  const auto node = [&](const char* op_type, const std::vector<ValueId>& inputs) {
    const std::string name = "n" + std::to_string(graph.nodes.size());
    const ValueId made = add(name + ":0");
    graph.nodes.push_back({name, op_type, "", inputs, {made}, {}});
    return made;
  };
  const ValueId x = add("x"), past0 = add("past0"), past1 = add("past1"), past2 = add("past2"),
                past3 = add("past3");
  graph.inputs = {past3, past2, x, past1, past0};
  const ValueId a = node("Relu", {x});
  const ValueId b = node("Add", {a, past0});  // read twice, and the output made between
  const ValueId present0 = node("Relu", {b});
  const ValueId c = node("Add", {b, past0});
  const ValueId present1 = node("Add", {c, past1});  // which a later stage reads, too
  const ValueId present2 = node("Relu", {c});        // whose input nobody reads
  const ValueId y = node("Add", {present1, c});
  graph.outputs = {y, present0, present1, present2, past3};  // one that is handed on as it is
  graph.states = {{3, 1}, {2, 3}, {1, 4}, {4, 0}};
  graph.opsets[""] = 18;
  check_invariants(graph);

  const StageCutter cutter(graph);
  std::vector<NodeId> kept;
  for (NodeId cut = 0; cut <= 7; ++cut)
    if (cutter.keeps_states(cut)) kept.push_back(cut);
  CHECK(kept == std::vector<NodeId>{0, 1, 4, 5, 6, 7});
  const auto states = [](const StageGraph& stage) {
    Names found;
    for (const State& state : stage.graph.states)
      found.push_back(stage.graph.value(stage.graph.outputs.at(state.output)).name + " " +
                      stage.graph.value(stage.graph.inputs.at(state.input)).name);
    return found;
  };
  const StageGraph first = cutter.cut(0, 4);
  CHECK(states(first) == Names{"n2:0 past0", "past3 past3"});
  CHECK(names(first.graph, first.model_inputs) == Names{"past3", "x", "past0"});
  const StageGraph second = cutter.cut(4, 5);
  CHECK(states(second) == Names{"n4:0 past1"});
  CHECK(names(second.graph, second.graph.inputs) == Names{"past1", "n3:0"});
  CHECK(names(second.graph, second.graph.outputs) == Names{"n4:0", "n3:0"});
  const StageGraph third = cutter.cut(5, 7);
  CHECK(states(third) == Names{"n5:0 past2"});
  CHECK(names(third.graph, third.graph.inputs) == Names{"past2", "n3:0", "n4:0"});
  for (const StageGraph* stage : {&first, &second, &third}) check_invariants(stage->graph);
  CHECK(states(cutter.cut(0, 7)).size() == 4);
}

TEST_CASE("a whole graph is one stage as it is") {
  const Sample sample;
  const StageGraph whole = whole_stage(sample.graph);
  CHECK(whole.graph.values.size() == sample.graph.values.size());
  CHECK(whole.model_inputs == sample.graph.inputs);
  CHECK(whole.model_outputs == sample.graph.outputs);
  CHECK(whole.received.empty());
  CHECK(whole.sent.empty());
}
