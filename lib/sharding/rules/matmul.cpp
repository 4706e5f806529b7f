// Matrix products: sums of products over a shared factor.

#include <algorithm>
#include <cctype>

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

/// Letters that stand once, in alphabetical order, behind an ellipsis if there is one: what an
/// equation without "->" means.
std::string implied_result(std::string_view terms) {
  std::string result;
  for (const char letter : terms) {
    const bool is_letter = std::isalpha(static_cast<unsigned char>(letter)) != 0;
    if (is_letter && std::ranges::count(terms, letter) == 1) result += letter;
  }
  std::ranges::sort(result);
  return (terms.find('.') != std::string_view::npos ? "..." : "") + result;
}

/// The terms of one side of the equation.
std::vector<std::string> terms_of(const std::string& side) {
  std::vector<std::string> terms{""};
  for (const char letter : side) {
    if (letter == ',') {
      terms.emplace_back();
    } else {
      terms.back() += letter;
    }
  }
  return terms;
}

/// Puts letters for the dimensions that the ellipsis stands for, the last of which are common.
void expand_ellipsis(std::string& term, std::size_t rank, std::string_view dimensions) {
  const std::size_t at = term.find("...");
  if (at == std::string::npos) return;
  const std::size_t count = rank + 3 - term.size();
  term.replace(at, 3, dimensions.substr(dimensions.size() - count));
}

}  // namespace

/// The equation is the rule, but for diagonals, which are left whole.
ShardingRule einsum(const graph::Graph& graph, const graph::Node& node) {
  std::string equation = node.string_attribute("equation", "");
  std::erase(equation, ' ');
  if (equation.find("->") == std::string::npos) equation += "->" + implied_result(equation);
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> terms = terms_of(equation.substr(0, arrow));
  std::string result = equation.substr(arrow + 2);

  const std::vector<Shape> inputs = input_shapes(graph, node);
  std::size_t most = 0;  // dimensions of an ellipsis
  for (std::size_t t = 0; t < terms.size(); ++t) {
    if (terms[t].find('.') != std::string::npos) {
      most = std::max(most, inputs.at(t).size() + 3 - terms[t].size());
    }
  }
  const std::string dimensions = letters(most, equation);
  for (std::size_t t = 0; t < terms.size(); ++t) {
    expand_ellipsis(terms[t], inputs.at(t).size(), dimensions);
  }
  expand_ellipsis(result, output_shapes(graph, node)[0].size(), dimensions);

  std::vector<FactorOptions> options;
  const auto add = [&](char letter, FactorKind kind) {
    if (std::ranges::find(options, letter, &FactorOptions::letter) == options.end()) {
      options.push_back({letter, kind});
    }
  };
  for (const std::string& term : terms) {
    for (const char letter : term) {
      if (std::ranges::count(term, letter) > 1) add(letter, FactorKind::whole);
    }
  }
  for (const std::string& term : terms) {
    for (const char letter : term) {
      if (result.find(letter) == std::string::npos) add(letter, FactorKind::sum);
    }
  }
  return node_rule(graph, node, terms, {result}, options);
}

}  // namespace autopar::sharding::rules
