#include "sharding/sharding_rule.h"

#include <algorithm>

#include "sharding/rules/table.h"

namespace autopar::sharding {
namespace {

std::vector<Shape> shapes_of(const graph::Graph& graph, const std::vector<graph::ValueId>& values) {
  std::vector<Shape> shapes;
  for (const graph::ValueId id : values) {
    shapes.push_back(id == graph::no_value ? Shape{} : graph.value(id).shape);
  }
  return shapes;
}

std::vector<std::vector<std::vector<int>>> no_factors(const std::vector<Shape>& shapes) {
  std::vector<std::vector<std::vector<int>>> result;
  for (const Shape& shape : shapes) result.emplace_back(shape.size());
  return result;
}

/// Two 4-bit elements share a byte, and a share might begin within one.
bool packs_elements(const graph::Graph& graph, const graph::Node& node) {
  const auto is_packed = [&graph](graph::ValueId id) {
    return id != graph::no_value && graph::bits_of(graph.value(id).type) == 4;
  };
  return std::ranges::any_of(node.inputs, is_packed) ||
         std::ranges::any_of(node.outputs, is_packed);
}

}  // namespace

std::optional<ShardingRule> sharding_rule(const graph::Graph& graph, const graph::Node& node) {
  const RuleFunction rule = find_rule(node.domain, node.op_type);
  if (rule == nullptr) return std::nullopt;
  if (packs_elements(graph, node)) return replicated_rule(graph, node);
  return rule(graph, node);
}

ShardingRule replicated_rule(const graph::Graph& graph, const graph::Node& node) {
  ShardingRule rule;
  rule.inputs = no_factors(input_shapes(graph, node));
  rule.outputs = no_factors(output_shapes(graph, node));
  return rule;
}

std::vector<Shape> input_shapes(const graph::Graph& graph, const graph::Node& node) {
  return shapes_of(graph, node.inputs);
}

std::vector<Shape> output_shapes(const graph::Graph& graph, const graph::Node& node) {
  return shapes_of(graph, node.outputs);
}

}  // namespace autopar::sharding
