// Operators that work along one dimension, which is whole, and alike for every index of the others.

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

/// First input and all outputs alike but whole along the axis; further inputs (k, axes) are whole.
ShardingRule along_axis(const graph::Graph& graph, const graph::Node& node, std::size_t axis) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::string text = with_whole(letters(rank), axis);
  return node_rule(graph, node, {text}, std::vector<std::string>(node.outputs.size(), text));
}

}  // namespace

ShardingRule along_last_axis(const graph::Graph& graph, const graph::Node& node) {
  return along_axis(graph, node, axis_attribute(node, input_shapes(graph, node)[0].size(), -1));
}

ShardingRule arg_reduction(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::size_t axis = axis_attribute(node, rank, 0);
  const std::string text = with_whole(letters(rank), axis);
  std::string result = text;
  if (node.int_attribute("keepdims", 1) == 0) result.erase(axis, 1);
  return node_rule(graph, node, {text}, {result});
}

ShardingRule cum_sum(const graph::Graph& graph, const graph::Node& node) {
  const auto axis = constant_ints(graph, node, 1);
  if (!axis) return replicated_rule(graph, node);
  return along_axis(graph, node, dimension(axis->front(), input_shapes(graph, node)[0].size()));
}

ShardingRule trilu(const graph::Graph& graph, const graph::Node& node) {
  const std::string text = letters(input_shapes(graph, node)[0].size() - 2) + "11";
  return node_rule(graph, node, {text}, {text});
}

ShardingRule one_hot(const graph::Graph& graph, const graph::Node& node) {
  const std::string indices = letters(input_shapes(graph, node)[0].size());
  std::string result = indices;
  result.insert(axis_attribute(node, indices.size() + 1, -1), 1, '1');
  return node_rule(graph, node, {indices}, {result});
}

}  // namespace autopar::sharding::rules
