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

namespace {

/// Letters that stand once, in alphabetical order: what an equation without "->" means.
std::string implied_result(std::string_view terms) {
  std::string result;
  for (const char letter : terms) {
    if (letter != ',' && std::ranges::count(terms, letter) == 1) result += letter;
  }
  std::ranges::sort(result);
  return result;
}

bool repeats_a_letter(std::string term) {
  std::ranges::sort(term);
  return std::ranges::adjacent_find(term) != term.end();
}

}  // namespace

/// The equation is the rule, but for ellipses and diagonals, which are left whole.
ShardingRule einsum(const graph::Graph& graph, const graph::Node& node) {
  std::string equation = node.string_attribute("equation", "");
  std::erase(equation, ' ');
  if (equation.find("->") == std::string::npos) equation += "->" + implied_result(equation);
  std::vector<FactorOptions> summed;
  const std::size_t arrow = equation.find("->");
  std::string term;
  for (std::size_t i = 0; i < arrow; ++i) {
    const char letter = equation[i];
    if (letter == ',') {
      term.clear();
      continue;
    }
    term += letter;
    if (letter == '.' || repeats_a_letter(term)) return replicated_rule(graph, node);
    const bool known = std::ranges::find(summed, letter, &FactorOptions::letter) != summed.end();
    if (!known && equation.find(letter, arrow) == std::string::npos) {
      summed.push_back({letter, FactorKind::sum});
    }
  }
  return node_rule(graph, node, equation, summed);
}

}  // namespace autopar::sharding::rules
