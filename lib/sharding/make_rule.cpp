// Rules from einsum-like text. A *group* is the text of one dimension: the letters of its factors,
// major first, or none for `1`.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "sharding/sharding_rule.h"

namespace autopar::sharding {
namespace {

using Group = std::string;

constexpr std::int64_t unknown = -1;

/// A rule's text and the shapes of the tensors that it is for.
struct RuleText {
  std::string_view text;
  std::span<const Shape> inputs;
  std::span<const Shape> outputs;

  /// Throws InternalError, naming all of this, where the rule is wrong.
  void check(bool holds, std::string_view what) const {
    if (holds) return;
    std::string shapes;
    for (const Shape& shape : inputs) shapes += ' ' + graph::to_string(shape);
    shapes += " ->";
    for (const Shape& shape : outputs) shapes += ' ' + graph::to_string(shape);
    throw InternalError(fmt::format("internal error: a rule {}: '{}' for{}", what, text, shapes));
  }
};

/// A dimension's text beside its extent.
struct Dimension {
  std::size_t tensor;  ///< inputs, then outputs
  Group group;
  std::int64_t extent;
};

/// The factors of a rule by their letters.
struct Factors {
  const RuleText& rule;
  std::vector<Factor> all;

  bool has(char letter) const {
    return std::ranges::find(all, letter, &Factor::letter) != all.end();
  }
  Factor& at(char letter) {
    const auto found = std::ranges::find(all, letter, &Factor::letter);
    rule.check(found != all.end(), "has the letters of its options");
    return *found;
  }
};

std::vector<Group> parse_groups(std::string_view text, const RuleText& rule) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '1') {
      groups.emplace_back();
    } else if (text[i] == '(') {
      const std::size_t close = text.find(')', i);
      rule.check(close != std::string_view::npos, "closes its parentheses");
      groups.emplace_back(text.substr(i + 1, close - i - 1));
      i = close;
    } else {
      groups.emplace_back(1, text[i]);
    }
  }
  return groups;
}

/// Appends the dimensions of the tensors of one side of the arrow, of which `tensor` is the first.
void parse_tensors(std::string_view text, std::span<const Shape> shapes, std::size_t tensor,
                   const RuleText& rule, std::vector<Dimension>& dimensions) {
  const auto commas = static_cast<std::size_t>(std::ranges::count(text, ','));
  rule.check((text.empty() && shapes.empty()) || commas + 1 == shapes.size(), "names every tensor");
  for (const Shape& shape : shapes) {
    const std::size_t comma = text.find(',');
    const std::vector<Group> groups = parse_groups(text.substr(0, comma), rule);
    rule.check(groups.size() == shape.size(), "names every dimension");
    for (std::size_t d = 0; d < shape.size(); ++d)
      dimensions.push_back({tensor, groups[d], shape[d]});
    ++tensor;
    if (comma != text.npos) text.remove_prefix(comma + 1);
  }
}

/// The factors in the order in which the text names them, of sizes that are not known.
Factors named_factors(const std::vector<Dimension>& dimensions, const RuleText& rule) {
  Factors factors{rule, {}};
  for (const Dimension& dimension : dimensions) {
    for (const char letter : dimension.group) {
      rule.check(std::isalpha(static_cast<unsigned char>(letter)) != 0, "is made of letters");
      if (!factors.has(letter)) factors.all.push_back({.letter = letter, .size = unknown});
    }
  }
  return factors;
}

/// Finds the sizes of letters that stand alone. A dimension of size 1 may be broadcast, so any
/// other size is the factor's.
void find_sizes_of_single_letters(const std::vector<Dimension>& dimensions, Factors& factors) {
  for (const auto& [tensor, group, extent] : dimensions) {
    if (group.size() != 1) continue;
    std::int64_t& size = factors.at(group.front()).size;
    factors.rule.check(size == unknown || size == 1 || extent == 1 || extent == size,
                       "agrees on sizes");
    if (size == unknown || size == 1) size = extent;
  }
}

/// Finds the one unknown size of a dimension of several factors; false where it has none or more.
bool find_size_in_product(const Group& group, std::int64_t extent, Factors& factors) {
  Factor* missing = nullptr;
  std::int64_t known = 1;
  for (const char letter : group) {
    Factor& factor = factors.at(letter);
    if (factor.size != unknown) {
      known *= factor.size;
    } else if (std::exchange(missing, &factor) != nullptr) {
      return false;
    }
  }
  if (missing == nullptr) return false;
  factors.rule.check(known == 0 ? extent == 0 : extent % known == 0, "divides its dimensions");
  missing->size = known == 0 ? 1 : extent / known;
  return true;
}

/// Finds what sizes products tell, as each may tell another; false where there was none.
bool find_sizes_in_products(const std::vector<Dimension>& dimensions, Factors& factors) {
  bool found = false;
  for (const auto& [tensor, group, extent] : dimensions)
    found |= find_size_in_product(group, extent, factors);
  return found;
}

/// The factors of a dimension. Those of size 1 hold nothing, nor does a broadcast dimension.
std::vector<int> factors_in(const Group& group, std::int64_t extent, Factors& factors) {
  std::vector<int> result;
  if (extent == 1 && group.size() <= 1) return result;
  std::int64_t product = 1;
  for (const char letter : group) {
    const Factor& factor = factors.at(letter);
    product *= factor.size;
    if (factor.size != 1) result.push_back(static_cast<int>(&factor - factors.all.data()));
  }
  factors.rule.check(group.empty() || product == extent, "multiplies to its dimensions");
  return result;
}

/// A spatial letter stands in an output.
void check_kinds(const std::vector<Dimension>& dimensions, const Factors& factors) {
  for (const Factor& factor : factors.all) {
    const bool is_in_output = std::ranges::any_of(dimensions, [&](const Dimension& dimension) {
      return dimension.tensor >= factors.rule.inputs.size() &&
             dimension.group.find(factor.letter) != Group::npos;
    });
    factors.rule.check(factor.kind != FactorKind::spatial || is_in_output,
                       "gives a reduction kind to letters that no output has");
  }
}

}  // namespace

ShardingRule make_rule(std::string_view text, std::span<const Shape> inputs,
                       std::span<const Shape> outputs, std::span<const FactorOptions> options) {
  const RuleText rule{text, inputs, outputs};
  const std::size_t arrow = text.find("->");
  rule.check(arrow != std::string_view::npos, "has an arrow");
  std::vector<Dimension> dimensions;
  parse_tensors(text.substr(0, arrow), inputs, 0, rule, dimensions);
  parse_tensors(text.substr(arrow + 2), outputs, inputs.size(), rule, dimensions);

  Factors factors = named_factors(dimensions, rule);
  for (const FactorOptions& option : options) {
    factors.at(option.letter) = {option.letter, option.size, option.kind,
                                 option.kind == FactorKind::mean, option.never_empty};
  }
  find_sizes_of_single_letters(dimensions, factors);
  while (find_sizes_in_products(dimensions, factors)) {
  }
  for (const Factor& factor : factors.all) rule.check(factor.size >= 0, "tells every size");

  std::vector<TensorFactors> tensors(inputs.size() + outputs.size());
  for (const auto& [tensor, group, extent] : dimensions)
    tensors[tensor].push_back(factors_in(group, extent, factors));
  check_kinds(dimensions, factors);
  ShardingRule result;
  result.inputs.assign(tensors.begin(), tensors.begin() + std::ssize(inputs));
  result.outputs.assign(tensors.begin() + std::ssize(inputs), tensors.end());
  result.factors = std::move(factors.all);
  return result;
}

}  // namespace autopar::sharding
