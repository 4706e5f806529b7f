// Matrix products: sums of products over a shared factor.

#include <algorithm>

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {

ShardingRule matmul(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> inputs = input_shapes(graph, node);
  const std::size_t a = inputs[0].size();
  const std::size_t b = inputs[1].size();
  const std::string batch = letters(std::max({a, b, std::size_t{2}}) - 2, "mkn");
  // A one-dimensional operand has neither batch nor a matrix dimension of its own.
  const std::string left = a == 1 ? "k" : aligned(batch, a - 2) + "mk";
  const std::string right = b == 1 ? "k" : aligned(batch, b - 2) + "kn";
  const std::string result = batch + (a == 1 ? "" : "m") + (b == 1 ? "" : "n");
  return node_rule(graph, node, {left, right}, {result}, {{'k', FactorKind::sum}});
}

ShardingRule gemm(const graph::Graph& graph, const graph::Node& node) {
  const char* left = node.int_attribute("transA", 0) != 0 ? "km" : "mk";
  const char* right = node.int_attribute("transB", 0) != 0 ? "nk" : "kn";
  const std::vector<Shape> inputs = input_shapes(graph, node);
  const std::string bias = aligned("mn", inputs.size() > 2 ? inputs[2].size() : 0);
  ShardingRule rule = node_rule(graph, node, {left, right, bias}, {"mn"}, {{'k', FactorKind::sum}});
  if (has_input(node, 2)) add_bias_once(rule, factor_index(rule, 'k'), 2);
  return rule;
}

}  // namespace autopar::sharding::rules
