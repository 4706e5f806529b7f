#include "runtime/kernels/product/einsum_equation.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"

namespace autopar::runtime {
namespace {

using Labels = std::vector<EinsumLabel>;

/// The label of an ellipsis' dimension, counted from its last.
EinsumLabel ellipsis_label(std::size_t from_last) { return -1 - static_cast<int>(from_last); }

/// One term of an equation; its ellipsis, if there is one, stands for so many dimensions.
Labels labels_of(std::string_view term, std::size_t ellipsis_dimensions) {
  Labels labels;
  bool has_ellipsis = false;
  for (std::size_t at = 0; at < term.size(); ++at) {
    if (std::isalpha(static_cast<unsigned char>(term[at])) != 0) {
      labels.push_back(term[at]);
      continue;
    }
    if (has_ellipsis || term.substr(at, 3) != "...")
      fail("'{}' of the equation is not letters with one ellipsis", term);
    has_ellipsis = true;
    at += 2;
    for (std::size_t d = ellipsis_dimensions; d-- > 0;) labels.push_back(ellipsis_label(d));
  }
  return labels;
}

std::size_t letters_in(std::string_view term) {
  return static_cast<std::size_t>(std::ranges::count_if(
      term, [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }));
}

std::vector<std::string_view> split_terms(std::string_view terms) {
  std::vector<std::string_view> result;
  for (;;) {
    const std::size_t comma = terms.find(',');
    result.push_back(terms.substr(0, comma));
    if (comma == std::string_view::npos) return result;
    terms.remove_prefix(comma + 1);
  }
}

}  // namespace

EinsumEquation::EinsumEquation(std::string_view equation, const std::vector<graph::Shape>& shapes) {
  std::string text(equation);
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  const std::string terms = text.substr(0, arrow);
  const auto names = split_terms(terms);
  if (names.size() != shapes.size())
    fail("equation '{}' has {} operands, not {}", equation, names.size(), shapes.size());
  std::size_t most_in_ellipsis = 0;
  std::map<EinsumLabel, int> uses;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t letters = letters_in(names[i]);
    const bool has_ellipsis = names[i].find('.') != std::string_view::npos;
    if (letters > shapes[i].size() || (!has_ellipsis && letters != shapes[i].size()))
      fail("'{}' of equation '{}' does not fit shape {}", names[i], equation,
           graph::to_string(shapes[i]));
    most_in_ellipsis = std::max(most_in_ellipsis, shapes[i].size() - letters);
    operands.push_back(labels_of(names[i], shapes[i].size() - letters));
    for (std::size_t d = 0; d < shapes[i].size(); ++d) {
      const EinsumLabel label = operands.back()[d];
      ++uses[label];
      std::int64_t& extent = extents.try_emplace(label, 1).first->second;
      if (extent == 1)
        extent = shapes[i][d];
      else if (shapes[i][d] != 1 && shapes[i][d] != extent)
        fail("a dimension of equation '{}' is both {} and {}", equation, extent, shapes[i][d]);
    }
  }
  if (arrow != std::string::npos) {
    output = labels_of(std::string_view(text).substr(arrow + 2), most_in_ellipsis);
  } else {
    for (std::size_t d = most_in_ellipsis; d-- > 0;) output.push_back(ellipsis_label(d));
    for (const auto& [label, count] : uses)
      if (label > 0 && count == 1) output.push_back(label);
  }
  for (const EinsumLabel label : output)
    if (!extents.contains(label) || std::ranges::count(output, label) != 1)
      fail("the result of equation '{}' has a dimension twice, or one that no operand has",
           equation);
}

}  // namespace autopar::runtime
