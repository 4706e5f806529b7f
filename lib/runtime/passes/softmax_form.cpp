#include "runtime/passes/softmax_form.h"

#include <algorithm>

namespace autopar::runtime::passes {

using graph::Node;
using graph::ValueId;

namespace {

class SoftmaxMatcher {
 public:
  SoftmaxMatcher(const Matcher& matcher, bool through_casts)
      : matcher_(matcher), through_casts_(through_casts) {}

  std::optional<SoftmaxForm> match(ValueId value, std::size_t most_masks) const {
    SoftmaxForm form;
    value = bare(value);
    if (const auto guarded = before_nan_guard(value)) {
      form.nan_to_zero = true;
      value = bare(*guarded);
    }
    const Node* softmax = matcher_.maker(value, "Softmax");
    if (softmax == nullptr || !is_over_last(*softmax)) return std::nullopt;
    form.scores = bare(softmax->inputs[0]);
    while (form.masks.size() < most_masks && take_mask(form)) {
    }
    const auto [of, factor] = matcher_.multiple(form.scores);
    form.scores = bare(of);
    form.scale = factor;
    return form;
  }

 private:
  ValueId bare(ValueId value) const { return through_casts_ ? matcher_.uncast(value) : value; }

  bool is_over_last(const Node& softmax) const {
    const auto rank = static_cast<std::int64_t>(matcher_.shape(softmax.inputs[0]).size());
    const std::int64_t axis = softmax.int_attribute("axis", -1);
    return axis == -1 || axis == rank - 1;
  }

  /// p where the value is Where(IsNaN(p), 0, p).
  std::optional<ValueId> before_nan_guard(ValueId value) const {
    const Node* where = matcher_.maker(value, "Where");
    const Node* is_nan = where != nullptr ? matcher_.maker(where->inputs[0], "IsNaN") : nullptr;
    const bool is_guard = is_nan != nullptr && matcher_.is_number(where->inputs[1], 0) &&
                          bare(is_nan->inputs[0]) == bare(where->inputs[2]);
    return is_guard ? std::optional(where->inputs[2]) : std::nullopt;
  }

  /// Moves the outermost mask from the scores to the masks.
  bool take_mask(SoftmaxForm& form) const {
    const Shape& shape = matcher_.shape(form.scores);
    if (const Node* where = matcher_.maker(form.scores, "Where")) {
      for (const bool keeps : {true, false}) {
        const ValueId under = where->inputs[keeps ? 1 : 2];
        const auto fill = matcher_.number(where->inputs[keeps ? 2 : 1]);
        if (!fill || matcher_.shape(under) != shape) continue;
        form.masks.push_back({where->inputs[0], fill, keeps, matcher_.type(under)});
        form.scores = bare(under);
        return true;
      }
      return false;
    }
    const Node* sum = matcher_.maker(form.scores, "Add");
    if (sum == nullptr) return false;
    const std::size_t mask = which_is_mask(*sum, shape);
    if (matcher_.shape(sum->inputs[1 - mask]) != shape) return false;
    form.masks.push_back({sum->inputs[mask], std::nullopt, true, matcher_.type(form.scores)});
    form.scores = bare(sum->inputs[1 - mask]);
    return true;
  }

  std::size_t which_is_mask(const Node& sum, const Shape& shape) const {
    if (matcher_.shape(sum.inputs[0]) != shape) return 0;
    if (matcher_.shape(sum.inputs[1]) != shape) return 1;
    constexpr int most_masks = 8;
    return are_scores(sum.inputs[1], most_masks) ? 0 : 1;
  }

  /// Whether a product is under the scale and masks that the value may have.
  bool are_scores(ValueId value, int most_masks) const {
    value = matcher_.uncast(matcher_.multiple(matcher_.uncast(value)).of);
    if (matcher_.product(value) != nullptr) return true;
    if (most_masks == 0) return false;
    for (const char* op_type : {"Where", "Add"})
      if (const Node* mask = matcher_.maker(value, op_type))
        return std::ranges::any_of(mask->inputs,
                                   [&](ValueId each) { return are_scores(each, most_masks - 1); });
    return false;
  }

  const Matcher& matcher_;
  bool through_casts_;
};

}  // namespace

std::optional<SoftmaxForm> match_softmax(const Matcher& matcher, ValueId value,
                                         std::size_t most_masks, bool through_casts) {
  return SoftmaxMatcher(matcher, through_casts).match(value, most_masks);
}

}  // namespace autopar::runtime::passes
