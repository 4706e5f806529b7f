#include "runtime/passes/fuse_masked_softmax.h"

#include <algorithm>

namespace autopar::runtime::passes {
namespace {

struct SoftmaxMatcher {
  const Matcher& matcher;
  LookThrough through;

  ValueId bare(ValueId value) const {
    if (through.casts) value = matcher.uncast(value);
    const Node* reshape = through.reshapes ? matcher.maker(value, "Reshape") : nullptr;
    const bool keeps_rows = reshape != nullptr && have_same_rows(value, reshape->inputs[0]);
    return keeps_rows ? bare(reshape->inputs[0]) : value;
  }

  bool have_same_rows(ValueId one, ValueId other) const {
    const Shape& a = matcher.shape(one);
    const Shape& b = matcher.shape(other);
    return a.size() >= 2 && b.size() >= 2 && std::equal(a.end() - 2, a.end(), b.end() - 2);
  }

  bool is_over_last(const Node& softmax) const {
    const std::int64_t axis = softmax.int_attribute("axis", -1);
    return axis == -1 || axis == std::ssize(matcher.shape(softmax.inputs[0])) - 1;
  }

  /// p where the value is Where(IsNaN(p), 0, p).
  std::optional<ValueId> before_nan_guard(ValueId value) const {
    const Node* where = matcher.maker(value, "Where");
    const Node* is_nan = where != nullptr ? matcher.maker(where->inputs[0], "IsNaN") : nullptr;
    const bool is_guard = is_nan != nullptr && matcher.is_number(where->inputs[1], 0) &&
                          bare(is_nan->inputs[0]) == bare(where->inputs[2]);
    return is_guard ? std::optional(where->inputs[2]) : std::nullopt;
  }

  /// Moves the outermost mask from the scores to the masks.
  bool take_mask(SoftmaxForm& form) const {
    const Shape& shape = matcher.shape(form.scores);
    if (const Node* where = matcher.maker(form.scores, "Where")) {
      for (const bool keeps : {true, false}) {
        const ValueId under = where->inputs[keeps ? 1 : 2];
        const auto fill = matcher.number(where->inputs[keeps ? 2 : 1]);
        if (!fill || matcher.shape(under) != shape) continue;
        form.masks.push_back({where->inputs[0], fill, keeps, matcher.type(under), shape});
        form.scores = bare(under);
        return true;
      }
      return false;
    }
    const Node* sum = matcher.maker(form.scores, "Add");
    if (sum == nullptr) return false;
    const std::size_t mask = which_is_mask(*sum, shape);
    if (matcher.shape(sum->inputs[1 - mask]) != shape) return false;
    form.masks.push_back({sum->inputs[mask], std::nullopt, true, matcher.type(form.scores), shape});
    form.scores = bare(sum->inputs[1 - mask]);
    return true;
  }

  std::size_t which_is_mask(const Node& sum, const Shape& shape) const {
    if (matcher.shape(sum.inputs[0]) != shape) return 0;
    if (matcher.shape(sum.inputs[1]) != shape) return 1;
    constexpr int most_masks = 8;
    return are_scores(sum.inputs[1], most_masks) ? 0 : 1;
  }

  /// Whether a product is under the scale and masks that the value may have.
  bool are_scores(ValueId value, int most_masks) const {
    value = bare(matcher.multiple(bare(value)).of);
    if (matcher.product(value) != nullptr) return true;
    if (most_masks == 0) return false;
    for (const char* op_type : {"Where", "Add"})
      if (const Node* mask = matcher.maker(value, op_type))
        return std::ranges::any_of(mask->inputs,
                                   [&](ValueId each) { return are_scores(each, most_masks - 1); });
    return false;
  }
};

std::optional<Node> masked_softmax(const Pass& pass, const Node& root, const SoftmaxForm& form) {
  const bool is_plain = form.masks.empty() && form.scale == 1 && !form.nan_to_zero;
  const ValueId out = root.outputs[0];
  const DataType type = pass.type(out);
  if (is_plain || pass.type(form.scores) != type || !Matcher::is_attribute(form.scale, type))
    return std::nullopt;
  Node node{root.name, "MaskedSoftmax", internal_domain, {form.scores}, {out}, {}};
  node.attributes["scale"] = static_cast<float>(form.scale);
  if (form.nan_to_zero) node.attributes["nan_to_zero"] = std::int64_t{1};
  for (const Mask& mask : form.masks) {
    if (!mask.keeps || (mask.fill && !Matcher::is_attribute(*mask.fill, type))) return std::nullopt;
    node.inputs.push_back(mask.value);
    if (mask.fill) node.attributes["fill"] = static_cast<float>(*mask.fill);
  }
  return pass.is_closed(out, node.inputs) ? pass.if_it_runs(std::move(node)) : std::nullopt;
}

}  // namespace

std::optional<SoftmaxForm> match_softmax(const Matcher& matcher, ValueId value,
                                         std::size_t most_masks, LookThrough through) {
  const SoftmaxMatcher within{matcher, through};
  SoftmaxForm form;
  value = within.bare(value);
  if (const auto guarded = within.before_nan_guard(value)) {
    form.nan_to_zero = true;
    value = within.bare(*guarded);
  }
  const Node* softmax = matcher.maker(value, "Softmax");
  if (softmax == nullptr || !within.is_over_last(*softmax)) return std::nullopt;
  form.scores = within.bare(softmax->inputs[0]);
  while (form.masks.size() < most_masks && within.take_mask(form)) continue;
  const auto [of, factor] = matcher.multiple(form.scores);
  form.scores = within.bare(of);
  form.scale = factor;
  return form;
}

/// From the last node on: what follows the softmax comes before it.
void fuse_masked_softmax(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes_from_last(graph, kernels, [](Pass& pass, const Node& root) -> std::optional<Node> {
    if (root.outputs.size() != 1 || root.outputs[0] == graph::no_value) return std::nullopt;
    for (const bool through_casts : {true, false}) {
      const auto form = match_softmax(pass, root.outputs[0], 1, {.casts = through_casts});
      if (!form) return std::nullopt;
      if (auto node = masked_softmax(pass, root, *form)) return node;
    }
    return std::nullopt;
  });
}

}  // namespace autopar::runtime::passes
