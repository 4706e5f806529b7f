#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sharding/op_shard_spec.h"
#include "sharding/sharding_rule.h"

namespace autopar::sharding {

/// A tensor of a sketched node: its shape, or the integers of a constant.
struct Operand {
  Shape shape;
  std::optional<std::vector<std::int64_t>> ints;
  graph::DataType type = graph::DataType::float32;
  bool left_out = false;
};

inline Operand of(Shape shape, graph::DataType type = graph::DataType::float32) {
  return {std::move(shape), std::nullopt, type, false};
}
inline Operand ints(std::vector<std::int64_t> values) {
  return {{static_cast<std::int64_t>(values.size())}, values, graph::DataType::int64, false};
}
inline Operand scalar(std::int64_t value) {
  return {{}, std::vector{value}, graph::DataType::int64, false};
}
inline Operand absent() { return {{}, std::nullopt, graph::DataType::undefined, true}; }

/// A graph of a single node.
inline graph::Graph sketch(std::string op_type, const std::vector<Operand>& inputs,
                           const std::vector<Operand>& outputs,
                           std::map<std::string, graph::Attribute> attributes = {},
                           std::int64_t opset = 23) {
  graph::Graph graph;
  graph.opsets[""] = opset;
  graph::Node node{"node", std::move(op_type), "", {}, {}, std::move(attributes)};
  const auto add = [&graph](const std::string& name, const Operand& operand) {
    if (operand.left_out) return graph::no_value;
    graph::Value value{name, operand.type, operand.shape, std::nullopt};
    if (operand.ints) value.constant = graph::Tensor::of_int64(operand.shape, *operand.ints);
    return graph.add_value(std::move(value));
  };
  for (const Operand& input : inputs) {
    node.inputs.push_back(add("in" + std::to_string(node.inputs.size()), input));
    if (!input.left_out && !input.ints) graph.inputs.push_back(node.inputs.back());
  }
  for (const Operand& output : outputs) {
    node.outputs.push_back(add("out" + std::to_string(node.outputs.size()), output));
    if (!output.left_out) graph.outputs.push_back(node.outputs.back());
  }
  graph.nodes.push_back(std::move(node));
  return graph;
}

inline ShardingRule rule_of(const graph::Graph& graph) {
  auto rule = sharding_rule(graph, graph.nodes.front());
  require(rule.has_value(), "a sketched operator has a rule");
  return *rule;
}

inline std::vector<OpShardSpec> choices_of(const graph::Graph& graph, const DeviceMesh& mesh) {
  const graph::Node& node = graph.nodes.front();
  return enumerate_op_shard_specs(rule_of(graph), mesh, input_shapes(graph, node),
                                  output_shapes(graph, node));
}

/// The choices on a mesh, as text.
inline std::vector<std::string> texts_of(const graph::Graph& graph,
                                         const DeviceMesh& mesh = DeviceMesh({2})) {
  std::vector<std::string> result;
  for (const OpShardSpec& choice : choices_of(graph, mesh)) result.push_back(to_string(choice));
  return result;
}

}  // namespace autopar::sharding
