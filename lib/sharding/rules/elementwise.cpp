// Operators whose every output element depends on one element of each input, after broadcasting.

#include <algorithm>

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {

ShardingRule elementwise(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> outputs = output_shapes(graph, node);
  const std::string result = letters(outputs.front().size());
  std::vector<std::string> inputs;
  for (const Shape& shape : input_shapes(graph, node)) {
    inputs.push_back(aligned(result, shape.size()));
  }
  std::vector<std::string> results;
  for (const Shape& shape : outputs) results.push_back(aligned(result, shape.size()));
  return node_rule(graph, node, inputs, results);
}

ShardingRule identity(const graph::Graph& graph, const graph::Node& node) {
  ShardingRule rule = elementwise(graph, node);
  rule.is_view = std::ranges::count(node.outputs, graph::no_value) + 1 ==
                 static_cast<std::ptrdiff_t>(node.outputs.size());
  return rule;
}

/// Every device would drop other elements in training.
ShardingRule dropout(const graph::Graph& graph, const graph::Node& node) {
  const bool may_train =
      has_input(node, 2) && constant_ints(graph, node, 2) != std::vector<std::int64_t>{0};
  return may_train ? replicated_rule(graph, node) : identity(graph, node);
}

ShardingRule cast_like(const graph::Graph& graph, const graph::Node& node) {
  const std::string text = letters(output_shapes(graph, node).front().size());
  return node_rule(graph, node, {text}, {text});
}

}  // namespace autopar::sharding::rules
