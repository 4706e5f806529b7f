// Matrix products: sums of products over a shared factor.

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
namespace {

/// A matrix product's tensors, with batches in front. A one-dimensional operand has neither batch
/// nor a matrix dimension of its own.
struct Product {
  std::string left;
  std::string right;
  std::string result;
};

Product product_of(const Shape& left, const Shape& right) {
  const bool has_rows = left.size() > 1;
  const bool has_columns = right.size() > 1;
  const std::string batch =
      letters(std::max({left.size(), right.size(), std::size_t{2}}) - 2, "mkn");
  return {has_rows ? aligned(batch, left.size() - 2) + "mk" : "k",
          has_columns ? aligned(batch, right.size() - 2) + "kn" : "k",
          batch + (has_rows ? "m" : "") + (has_columns ? "n" : "")};
}

/// The texts of a quantised product, and of the scales and zero points of its tensors. No share is
/// empty: then it would have no scales.
struct QuantisedProduct {
  const Operator& op;
  Product texts;

  /// The text of an input that scales a tensor: one number for all, one for each element of the
  /// dimension of this letter, or as many dimensions as the tensor, broadcast.
  std::string scale(std::size_t input, const std::string& of, char letter) const {
    if (input >= op.inputs.size()) return "";
    const Shape& shape = op.inputs[input];
    if (graph::num_elements(shape) == 1) return "";
    if (shape.size() > 1) return aligned(of, shape.size());
    return of.find(letter) == of.npos ? "1" : std::string(1, letter);
  }
  std::vector<FactorOptions> options(FactorKind sums) const {
    std::vector<FactorOptions> result{{'k', sums}};
    for (const char letter : {'m', 'n'}) {
      if (texts.result.find(letter) != std::string::npos)
        result.push_back({letter, FactorKind::spatial, true});
    }
    return result;
  }
};

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

/// Puts letters for the dimensions that the ellipsis stands for, the last of which are common.
void expand_ellipsis(std::string& term, std::size_t rank, std::string_view dimensions) {
  const std::size_t at = term.find("...");
  if (at == std::string::npos) return;
  const std::size_t count = rank + 3 - term.size();
  term.replace(at, 3, dimensions.substr(dimensions.size() - count));
}

}  // namespace

ShardingRule matmul(const Operator& op) {
  const auto [left, right, result] = product_of(op.inputs[0], op.inputs[1]);
  return op.rule({left, right}, {result}, {{'k', FactorKind::sum}});
}

/// Sums of integers are exact, however they are grouped.
ShardingRule matmul_integer(const Operator& op) {
  const QuantisedProduct product{op, product_of(op.inputs[0], op.inputs[1])};
  const auto& [left, right, result] = product.texts;
  return op.rule({left, right, product.scale(2, left, 'm'), product.scale(3, right, 'n')}, {result},
                 product.options(FactorKind::sum));
}

/// Sums are rounded, and so whole.
ShardingRule qlinear_matmul(const Operator& op) {
  const QuantisedProduct product{op, product_of(op.inputs[0], op.inputs[3])};
  const auto& [left, right, result] = product.texts;
  return op.rule({left, product.scale(1, left, 'm'), product.scale(2, left, 'm'), right,
                  product.scale(4, right, 'n'), product.scale(5, right, 'n'),
                  product.scale(6, result, 'm'), product.scale(7, result, 'm')},
                 {result}, product.options(FactorKind::whole));
}

ShardingRule gemm(const Operator& op) {
  const char* left = op.node.int_attribute("transA", 0) != 0 ? "km" : "mk";
  const char* right = op.node.int_attribute("transB", 0) != 0 ? "nk" : "kn";
  const std::string bias = aligned("mn", op.inputs.size() > 2 ? op.inputs[2].size() : 0);
  ShardingRule rule = op.rule({left, right, bias}, {"mn"}, {{'k', FactorKind::sum}});
  if (op.has_input(2)) {
    rule.placed = "k";
    rule.localize = [](LocalNode& local) { add_bias_once(local, 'k', 2); };
  }
  return rule;
}

/// The equation is the rule, but for diagonals, which are left whole.
ShardingRule einsum(const Operator& op) {
  std::string equation = op.node.string_attribute("equation", "");
  std::erase(equation, ' ');
  if (equation.find("->") == std::string::npos) equation += "->" + implied_result(equation);
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> terms;
  std::istringstream operands(equation.substr(0, arrow));
  for (std::string term; std::getline(operands, term, ',');) terms.push_back(term);
  std::string result = equation.substr(arrow + 2);

  std::size_t most = 0;  // dimensions of an ellipsis
  for (std::size_t t = 0; t < terms.size(); ++t) {
    if (terms[t].find('.') != std::string::npos) {
      most = std::max(most, op.inputs.at(t).size() + 3 - terms[t].size());
    }
  }
  const std::string dimensions = letters(most, equation);
  for (std::size_t t = 0; t < terms.size(); ++t) {
    expand_ellipsis(terms[t], op.inputs.at(t).size(), dimensions);
  }
  expand_ellipsis(result, op.outputs[0].size(), dimensions);

  std::map<char, FactorKind> kinds;
  for (const std::string& term : terms) {
    for (const char letter : term) {
      if (std::ranges::count(term, letter) > 1)
        kinds[letter] = FactorKind::whole;
      else if (result.find(letter) == std::string::npos)
        kinds.emplace(letter, FactorKind::sum);
    }
  }
  std::vector<FactorOptions> options;
  for (const auto& [letter, kind] : kinds) options.push_back({letter, kind});
  return op.rule(terms, {result}, options);
}

}  // namespace autopar::sharding::rules
