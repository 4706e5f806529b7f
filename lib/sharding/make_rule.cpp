// Rules from einsum-like text. A *group* is the text of one dimension: the letters of its factors,
// major first, or none for `1`.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sharding/sharding_rule.h"

namespace autopar::sharding {
namespace {

using Group = std::string;
using TensorGroups = std::vector<Group>;

class RuleMaker {
 public:
  RuleMaker(std::string_view text, std::span<const Shape> inputs, std::span<const Shape> outputs)
      : text_(text), inputs_(inputs), outputs_(outputs) {
    const std::size_t arrow = text.find("->");
    check(arrow != std::string_view::npos, "has an arrow");
    input_groups_ = parse_tensors(text.substr(0, arrow), inputs);
    output_groups_ = parse_tensors(text.substr(arrow + 2), outputs);
  }

  ShardingRule make(std::span<const FactorOptions> options) {
    for (const FactorOptions& option : options) {
      if (option.size != unknown) factor_of(option.letter).size = option.size;
    }
    find_sizes_of_single_letters();
    while (find_size_in_a_product()) {
    }
    for (const Factor& factor : rule_.factors) check(factor.size >= 0, "tells every size");
    rule_.inputs = factors_of(input_groups_, inputs_);
    rule_.outputs = factors_of(output_groups_, outputs_);
    for (const FactorOptions& option : options) apply(option);
    check_kinds();
    return std::move(rule_);
  }

 private:
  static constexpr std::int64_t unknown = -1;

  void check(bool holds, std::string_view what) const {
    if (holds) return;
    std::string shapes;
    for (const Shape& shape : inputs_) shapes += ' ' + graph::to_string(shape);
    shapes += " ->";
    for (const Shape& shape : outputs_) shapes += ' ' + graph::to_string(shape);
    throw InternalError(fmt::format("internal error: a rule {}: '{}' for{}", what, text_, shapes));
  }

  std::vector<TensorGroups> parse_tensors(std::string_view text, std::span<const Shape> shapes) {
    std::vector<TensorGroups> tensors;
    if (text.empty() && shapes.empty()) return tensors;
    while (true) {
      const std::size_t comma = text.find(',');
      tensors.push_back(parse_groups(text.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      text.remove_prefix(comma + 1);
    }
    check(tensors.size() == shapes.size(), "names every tensor");
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      check(tensors[t].size() == shapes[t].size(), "names every dimension");
    }
    return tensors;
  }

  TensorGroups parse_groups(std::string_view text) {
    TensorGroups groups;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '1') {
        groups.emplace_back();
      } else if (text[i] == '(') {
        const std::size_t close = text.find(')', i);
        check(close != std::string_view::npos, "closes its parentheses");
        groups.emplace_back(text.substr(i + 1, close - i - 1));
        i = close;
      } else {
        groups.emplace_back(1, text[i]);
      }
      for (const char letter : groups.back()) add_factor(letter);
    }
    return groups;
  }

  void add_factor(char letter) {
    check(std::isalpha(static_cast<unsigned char>(letter)) != 0, "is made of letters");
    if (find(letter) == nullptr) rule_.factors.push_back({.letter = letter, .size = unknown});
  }

  Factor* find(char letter) {
    const auto found = std::ranges::find(rule_.factors, letter, &Factor::letter);
    return found == rule_.factors.end() ? nullptr : &*found;
  }

  Factor& factor_of(char letter) {
    Factor* factor = find(letter);
    check(factor != nullptr, "has the letters of its options");
    return *factor;
  }

  /// Calls `visit(group, extent)` for each dimension of each tensor.
  template <typename Visit>
  void for_each_dimension(Visit visit) {
    for (std::size_t t = 0; t < inputs_.size(); ++t) {
      for (std::size_t d = 0; d < inputs_[t].size(); ++d) visit(input_groups_[t][d], inputs_[t][d]);
    }
    for (std::size_t t = 0; t < outputs_.size(); ++t) {
      for (std::size_t d = 0; d < outputs_[t].size(); ++d) {
        visit(output_groups_[t][d], outputs_[t][d]);
      }
    }
  }

  /// A dimension of size 1 may be broadcast, so any other size is the factor's.
  void find_sizes_of_single_letters() {
    for_each_dimension([this](const Group& group, std::int64_t extent) {
      if (group.size() != 1) return;
      std::int64_t& size = find(group.front())->size;
      check(size == unknown || size == 1 || extent == 1 || extent == size, "agrees on sizes");
      if (size == unknown || size == 1) size = extent;
    });
  }

  /// Finds one unknown size from a dimension whose other factors are known; false for none left.
  bool find_size_in_a_product() {
    bool found = false;
    for_each_dimension([&](const Group& group, std::int64_t extent) {
      Factor* missing = nullptr;
      std::int64_t known = 1;
      for (const char letter : group) {
        Factor* factor = find(letter);
        if (factor->size != unknown) {
          known *= factor->size;
        } else if (missing == nullptr) {
          missing = factor;
        } else {
          return;
        }
      }
      if (missing == nullptr) return;
      check(known == 0 ? extent == 0 : extent % known == 0, "divides its dimensions");
      missing->size = known == 0 ? 1 : extent / known;
      found = true;
    });
    return found;
  }

  std::vector<std::vector<std::vector<int>>> factors_of(const std::vector<TensorGroups>& groups,
                                                        std::span<const Shape> shapes) {
    std::vector<std::vector<std::vector<int>>> tensors(shapes.size());
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      for (std::size_t d = 0; d < shapes[t].size(); ++d) {
        tensors[t].push_back(factors_of(groups[t][d], shapes[t][d]));
      }
    }
    return tensors;
  }

  /// Factors of size 1 hold nothing, and a broadcast dimension holds no factor.
  std::vector<int> factors_of(const Group& group, std::int64_t extent) {
    std::vector<int> result;
    if (extent == 1 && group.size() <= 1) return result;
    std::int64_t product = 1;
    for (const char letter : group) {
      const Factor* factor = find(letter);
      product *= factor->size;
      if (factor->size != 1) result.push_back(static_cast<int>(factor - rule_.factors.data()));
    }
    check(group.empty() || product == extent, "multiplies to its dimensions");
    return result;
  }

  void apply(const FactorOptions& option) {
    Factor& factor = factor_of(option.letter);
    factor.kind = option.kind;
    factor.even = option.kind == FactorKind::mean;
    factor.never_empty = option.never_empty;
  }

  void check_kinds() {
    for (const Factor& factor : rule_.factors) {
      const auto holds_letter = [&](const TensorGroups& tensor) {
        return std::ranges::any_of(
            tensor, [&](const Group& group) { return group.find(factor.letter) != Group::npos; });
      };
      check(factor.kind != FactorKind::spatial || std::ranges::any_of(output_groups_, holds_letter),
            "gives a reduction kind to letters that no output has");
    }
  }

  std::string_view text_;
  std::span<const Shape> inputs_;
  std::span<const Shape> outputs_;
  std::vector<TensorGroups> input_groups_;
  std::vector<TensorGroups> output_groups_;
  ShardingRule rule_;
};

}  // namespace

ShardingRule make_rule(std::string_view text, std::span<const Shape> inputs,
                       std::span<const Shape> outputs, std::span<const FactorOptions> options) {
  return RuleMaker(text, inputs, outputs).make(options);
}

}  // namespace autopar::sharding
