#include "search/pins.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"

using namespace autopar;
using Catch::Matchers::Contains;
using Catch::Matchers::Message;
using search::Pin;
using search::Pins;
using sharding::TensorShardSpec;

namespace {

std::vector<TensorShardSpec> specs(const std::vector<std::string>& texts) {
  std::vector<TensorShardSpec> result;
  for (const std::string& text : texts) result.push_back(TensorShardSpec::parse(text));
  return result;
}

/// layer.0/up: h = x w, layer.0/act: y = relu(h).
graph::Graph small_graph() {
  graph::Graph graph;
  const auto value = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {8, 8}, std::nullopt});
  };
  const auto x = value("x");
  const auto w = graph.add_constant("w", graph::Tensor::zeros(graph::DataType::float32, {8, 8}));
  const auto h = value("h");
  const auto y = value("y");
  graph.nodes = {{"layer.0/up", "MatMul", "", {x, w}, {h}, {}},
                 {"layer.0/act", "Relu", "", {h}, {y}, {}}};
  graph.inputs = {x};
  graph.outputs = {y};
  return graph;
}

/// Those of y = relu(x) on a mesh of one axis.
std::vector<sharding::OpShardSpec> choices_of_relu() {
  const graph::Graph graph = small_graph();
  const graph::Node& relu = graph.nodes[1];
  return sharding::enumerate_op_shard_specs(
      *sharding::sharding_rule(graph, relu), sharding::DeviceMesh({2}),
      sharding::input_shapes(graph, relu), sharding::output_shapes(graph, relu));
}

std::vector<Pin> loaded(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "pins.json") << text;
  return search::load_pins(folder / "pins.json");
}

std::string refusal_of(const std::string& text) {
  try {
    loaded(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a strategy file's entries are read with the fields that they have") {
  const std::vector<Pin> pins = loaded(
      R"({"operators": [{"name": "up", "op_type": "MatMul", "inputs": ["RS0", "S0R"],
                         "outputs": ["RR"], "reductions": ["all-reduce"]},
                        {"name": "w*", "outputs": ["RS0"]}]})");
  REQUIRE(pins.size() == 2);
  CHECK(pins[0].name == "up");
  CHECK(pins[0].inputs == specs({"RS0", "S0R"}));
  CHECK(pins[0].outputs == specs({"RR"}));
  CHECK(pins[0].reductions == std::vector{sharding::ReduceFunction::all_reduce});
  CHECK(pins[1].name == "w*");
  CHECK_FALSE(pins[1].inputs.has_value());
  CHECK(pins[1].outputs == specs({"RS0"}));
  CHECK_FALSE(pins[1].reductions.has_value());
}

TEST_CASE("a strategy file that is malformed is refused, with the entry and the field") {
  CHECK_THROWS_WITH(search::load_pins("/nonexistent/pins.json"), Contains("cannot be read"));
  CHECK_THAT(refusal_of("{"), Contains("is no JSON"));
  CHECK_THAT(refusal_of("[]"), Contains("'operators'"));
  CHECK_THAT(refusal_of(R"({"operators": {}})"), Contains("'operators'"));
  CHECK_THAT(refusal_of(R"({"operators": [{"inputs": []}]})"),
             Contains("operators[0]") && Contains("'name'"));
  CHECK_THAT(refusal_of(R"({"operators": [{"name": "a"}, {"name": "b", "axis": 1}]})"),
             Contains("operators[1] ('b')") && Contains("unknown field 'axis'"));
  CHECK_THAT(refusal_of(R"({"operators": [{"name": "a", "outputs": "RR"}]})"),
             Contains("'outputs' is no list"));
  CHECK_THAT(refusal_of(R"({"operators": [{"name": "a", "outputs": [1]}]})"),
             Contains("'outputs'"));
  CHECK_THAT(refusal_of(R"({"operators": [{"name": "a", "outputs": ["RX"]}]})"),
             Contains("operators[0] ('a')"));
  // All at once.
  CHECK_THAT(refusal_of(R"({"operators": [{"name": "a", "axis": 1}, {"name": "b", "dim": 2}]})"),
             Contains("'axis'") && Contains("'dim'"));
}

TEST_CASE("the last pin that matches an operator counts") {
  const graph::Graph graph = small_graph();
  const std::vector<Pin> pins = {{"layer.*", {}, specs({"S0R"}), {}},
                                 {"layer.0/up", {}, specs({"RR"}), {}},
                                 {"*act", {}, specs({"RS0"}), {}}};
  const Pins of_graph(pins, graph);
  CHECK(of_graph.pin_of("layer.0/up") == &pins[1]);
  CHECK(of_graph.pin_of("layer.0/act") == &pins[2]);
  CHECK(of_graph.pin_of("layer.1/norm") == &pins[0]);
  CHECK_FALSE(of_graph.is_pinned("head"));
}

TEST_CASE("a pin leaves the strategies that have all of its fields") {
  const graph::Graph graph = small_graph();
  const auto choices = choices_of_relu();
  REQUIRE(choices.size() == 3);
  const auto left_by = [&](const Pin& pin) {
    const std::vector<Pin> pins = {pin};
    return Pins(pins, graph).allowed("layer.0/act", choices);
  };
  CHECK(left_by({"layer.0/up", specs({"RR", "RR"}), {}, {}}) == choices);  // another operator's
  CHECK(left_by({"layer.0/act", {}, {}, {}}) == choices);
  for (const auto& choice : choices) {
    CHECK(left_by({"layer.0/act", choice.inputs, {}, {}}) == std::vector{choice});
    CHECK(left_by({"layer.0/act", {}, choice.outputs, {}}) == std::vector{choice});
    CHECK(left_by({"layer.0/act", choice.inputs, choice.outputs, choice.reductions}) ==
          std::vector{choice});
  }
  CHECK_THROWS_WITH(
      left_by({"layer.0/act", specs({"S0R"}), specs({"RS0"}), {}}),
      Contains("'layer.0/act'") && Contains("inputs S0R outputs RS0") && Contains("S0R->S0R"));
}

TEST_CASE("a pin is for a tensor where it matches no operator, or has exactly the tensor's name") {
  graph::Graph graph = small_graph();
  const auto all = specs({"RR", "S0R", "RS0"});
  const auto left_by = [&](const std::string& name, const std::string& tensor) {
    const std::vector<Pin> pins = {{name, {}, specs({"S0R"}), {}}};
    return Pins(pins, graph).allowed(tensor, all);
  };
  CHECK(left_by("w", "w") == specs({"S0R"}));
  CHECK(left_by("?", "x") == specs({"S0R"}));
  CHECK(left_by("*", "w") == all);  // operators match
  graph.nodes[1].name = "w";
  CHECK(left_by("w", "w") == specs({"S0R"}));

  const std::vector<Pin> impossible = {{"x", {}, specs({"S1R"}), {}}};
  CHECK_THROWS_WITH(Pins(impossible, graph).allowed("x", all),
                    Contains("'x'") && Contains("outputs S1R") && Contains("RR S0R RS0"));
}

TEST_CASE("a pin that names nothing, or asks a tensor for a strategy, is refused") {
  const graph::Graph graph = small_graph();
  const auto refusal = [&](const Pin& pin) -> std::string {
    const std::vector<Pin> pins = {pin};
    try {
      Pins(pins, graph);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refusal({"nobody", {}, {}, {}}), Contains("'nobody'"));
  CHECK_THAT(refusal({"h", {}, specs({"RR"}), {}}),
             Contains("'h'"));  // neither stored nor an operator
  CHECK_THAT(refusal({"w", specs({"RR"}), {}, {}}), Contains("'outputs' alone"));
  CHECK(refusal({"w", {}, specs({"RR"}), {}}).empty());
  const std::vector<Pin> several = {{"nobody", {}, {}, {}}, {"nothing", {}, {}, {}}};
  Problems problems;
  const Pins collected(several, graph, &problems);
  CHECK_THROWS_WITH(problems.throw_if_any(), Contains("'nobody'") && Contains("'nothing'"));
}

TEST_CASE("names are checked against a model's file as far as it tells") {
  const auto check = [](const std::string& name) {
    search::check_pin_names({{name, {}, {}, {}}}, {"", "layer.0", "w"});
  };
  CHECK_NOTHROW(check("layer.0"));
  CHECK_NOTHROW(check("layer.0/inner"));  // from inside of the node
  CHECK_NOTHROW(check("nob*dy"));         // a glob
  CHECK_THROWS_WITH(check("nobody"), Contains("'nobody'"));
}

TEST_CASE("pins tell whether they ask for partial values") {
  const graph::Graph graph = small_graph();
  const auto names_partial = [&](const Pin& pin) {
    const std::vector<Pin> pins = {pin};
    return Pins(pins, graph).name_partial_values();
  };
  CHECK_FALSE(names_partial({"layer.0/up", {}, specs({"RR"}), {}}));
  CHECK(names_partial({"layer.0/up", {}, specs({"RR+P0"}), {}}));
  CHECK(names_partial({"layer.0/act", specs({"RR+P0"}), {}, {}}));
}

TEST_CASE("a pin of single tensors leaves all others open") {
  const graph::Graph graph = small_graph();
  const auto choices = choices_of_relu();
  const auto left_by = [&](const Pin& pin) {
    const std::vector<Pin> pins = {pin};
    return Pins(pins, graph).allowed("layer.0/act", choices);
  };
  const TensorShardSpec rows = TensorShardSpec::parse("S0R");
  const auto with = [&](std::map<std::size_t, TensorShardSpec> inputs,
                        std::map<std::size_t, TensorShardSpec> outputs) {
    Pin pin{"layer.0/act", {}, {}, {}};
    pin.some_inputs = std::move(inputs);
    pin.some_outputs = std::move(outputs);
    return pin;
  };
  for (const Pin& pin : {with({{0, rows}}, {}), with({}, {{0, rows}})}) {
    const auto left = left_by(pin);
    REQUIRE(left.size() == 1);
    CHECK(left.front().inputs == specs({"S0R"}));
  }
  CHECK_THROWS_WITH(left_by(with({{1, rows}}, {})), Contains("input 1 S0R"));
  const std::vector<Pin> partial = {with({}, {{0, TensorShardSpec::parse("RR+P0")}})};
  CHECK(Pins(partial, graph).name_partial_values());
}

TEST_CASE("a pin for a mesh is told on another one") {
  Pin pin{"layer.0/act", {}, {}, {}};
  pin.mesh = sharding::DeviceMesh({2, 2});
  Problems problems;
  search::check_meshes({pin}, sharding::DeviceMesh({2, 2}), problems);
  CHECK_FALSE(problems.any());
  search::check_meshes({pin}, sharding::DeviceMesh({4}), problems);
  CHECK_THROWS_WITH(problems.throw_if_any(), Contains("'layer.0/act' on a mesh 2x2, not on 4"));
}
