#include "graph/found_states.h"

#include <catch2/catch.hpp>

#include "graph/state.h"

using namespace autopar;
using namespace autopar::graph;

namespace {

struct Port {
  std::string name;
  Shape shape;
  DataType type = DataType::float32;
};

Graph with_ports(const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
  Graph graph;
  for (const auto& [name, shape, type] : inputs)
    graph.inputs.push_back(graph.add_value({name, type, shape, std::nullopt}));
  for (const auto& [name, shape, type] : outputs)
    graph.outputs.push_back(graph.add_value({name, type, shape, std::nullopt}));
  return graph;
}

const Shape past{1, 2, 8, 4}, present{1, 2, 9, 4};

/// Pairs of names, "output=input".
std::vector<std::string> found(const Graph& graph) {
  std::vector<std::string> pairs;
  for (const State& state : find_states(graph))
    pairs.push_back(graph.value(graph.outputs[state.output]).name + "=" +
                    graph.value(graph.inputs[state.input]).name);
  return pairs;
}

using Pairs = std::vector<std::string>;

}  // namespace

TEST_CASE("caches are found by the names that exporters give them") {
  const auto [input, output] = GENERATE(table<std::string, std::string>({
      {"past_key_values.0.key", "present.0.key"},
      {"past_key_values.11.decoder.value", "present.11.decoder.value"},
      {"past_key_values.3.encoder.key", "present.3.encoder.key"},
      {"past_key_values.0.key_value", "present.0.key_value"},
      {"past_key_values_0_key", "present_key_values_0_key"},
      {"past_key_values.0", "present.0"},
      {"past_0", "present_0"},
      {"past_key_self_0", "present_key_self_0"},
      {"past_0_key", "present_0_key"},
      {"past_conv.0", "present_conv.0"},
      {"past", "present"},
      {"decoder/past_kv_cache_2", "decoder/present_2"},
  }));
  CAPTURE(input, output);
  const Graph graph = with_ports({{"input_ids", {1, 1}}, {input, past}},
                                 {{"logits", {1, 1, 9}}, {output, present}});
  CHECK(found(graph) == Pairs{output + "=" + input});
}

TEST_CASE("what is called otherwise or does not fit is no state") {
  const Port key{"past_key_values.0.key", past};
  CHECK(found(with_ports({key}, {{"present.1.key", present}})).empty());
  CHECK(found(with_ports({key}, {{"present.0.value", present}})).empty());
  CHECK(found(with_ports({key}, {{"new.0.key", present}})).empty());
  CHECK(found(with_ports({key}, {{"past_key_values.0.key.out", present}})).empty());
  CHECK(found(with_ports({key}, {{"present.0.key", {1, 2, 7, 4}}})).empty());
  CHECK(found(with_ports({key}, {{"present.0.key", {1, 3, 9, 4}}})).empty());
  CHECK(found(with_ports({key}, {{"present.0.key", {2, 9, 4}}})).empty());
  CHECK(found(with_ports({key}, {{"present.0.key", present, DataType::float16}})).empty());
  CHECK(found(with_ports({{"x", {1, 4}}, {"past_values", {1, 4}}}, {{"y", {1, 4}}})).empty());
  // Nothing tells which of two is meant.
  CHECK(found(with_ports({key, {"past.0.key", past}}, {{"present.0.key", present}})).empty());
  CHECK(found(with_ports({{"past.past.0", past}}, {{"present.present.0", present}})).empty());
}

TEST_CASE("layers are found together or not at all") {
  const std::vector<Port> inputs = {{"past_key_values.0.key", past},
                                    {"past_key_values.1.key", past},
                                    {"past_key_values.0.value", past},
                                    {"past_key_values.1.value", past}};
  std::vector<Port> outputs = {{"present.1.value", present},
                               {"present.0.key", present},
                               {"present.1.key", present},
                               {"present.0.value", present}};
  Graph graph = with_ports(inputs, outputs);
  CHECK(found(graph) ==
        Pairs{"present.1.value=past_key_values.1.value", "present.0.key=past_key_values.0.key",
              "present.1.key=past_key_values.1.key", "present.0.value=past_key_values.0.value"});
  graph.states = find_states(graph);
  const std::vector<std::string> patterns = state_patterns(graph);
  CHECK(patterns ==
        Pairs{"present.*.value=past_key_values.*.value", "present.*.key=past_key_values.*.key"});
  CHECK(match_states(graph, patterns).size() == graph.states.size());
  outputs[2].shape = {1, 2, 3, 4};
  CHECK(found(with_ports(inputs, outputs)) == Pairs{"present.1.value=past_key_values.1.value",
                                                    "present.0.value=past_key_values.0.value"});
}
