#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "runtime/kernels/common/element_types.h"
#include "runtime/passes/layout.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/softmax_form.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// Scores this low, or made lower by this, leave nothing of a key. float16 has none lower.
double invisible(DataType type) { return type == DataType::float16 ? -65504 : -1e9; }

constexpr std::size_t heads = 1;  ///< the dimension of [B, H, S, D]

/// Which keys a constant mask lets a query see.
enum class Visibility { all, causal, other };

/// An operand as it is stored, and how often each of its heads is used.
struct Operand {
  ValueId source = graph::no_value;
  Layout::Stored stored;
  double factor = 1;
  std::int64_t repeats = 1;
};

/// softmax(scale Q K^T under masks) V, before layouts are looked at.
struct Pattern {
  const Node* scores = nullptr;
  const Node* result = nullptr;
  SoftmaxForm softmax;
  bool causal = false;
};

class AttentionFusion {
 public:
  AttentionFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), matcher_(graph) {}

  void run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].outputs.size() != 1) continue;
      if (const auto pattern = match(graph_.nodes[n].outputs[0])) fuse(*pattern);
    }
    insertions_.apply(graph_);
  }

 private:
  std::optional<Pattern> match(ValueId value) {
    Pattern pattern;
    pattern.result = matcher_.product(value);
    if (pattern.result == nullptr || matcher_.shape(value).size() != 4 ||
        pattern.result->int_attribute("transA", 0) != 0 ||
        graph::num_elements(matcher_.shape(value)) == 0)
      return std::nullopt;
    constexpr std::size_t most_masks = 4;
    const auto softmax = match_softmax(matcher_, pattern.result->inputs[0], most_masks, true);
    if (!softmax) return std::nullopt;
    pattern.softmax = *softmax;
    pattern.scores = matcher_.product(softmax->scores);
    if (pattern.scores == nullptr || !have_same_batch(pattern)) return std::nullopt;
    bool may_show_again = false;  // what masks below hide
    std::erase_if(pattern.softmax.masks, [&](const Mask& mask) {
      const Visibility seen = visibility(mask, matcher_.shape(softmax->scores));
      const bool is_causal = seen == Visibility::causal && !may_show_again;
      pattern.causal = pattern.causal || is_causal;
      if (is_causal || seen == Visibility::all) return true;
      may_show_again = may_show_again || (mask.fill && *mask.fill > invisible(mask.type));
      return false;
    });
    const auto& left = pattern.softmax.masks;
    const bool is_expressible = left.empty() || (left.size() == 1 && left[0].keeps);
    return is_expressible ? std::optional(pattern) : std::nullopt;
  }

  /// [B, H, *, *] on all sides of both products, so that nothing is broadcast.
  bool have_same_batch(const Pattern& pattern) const {
    const Shape& out = matcher_.shape(pattern.result->outputs[0]);
    const std::array operands = {pattern.scores->inputs[0], pattern.scores->inputs[1],
                                 pattern.result->inputs[0], pattern.result->inputs[1]};
    return std::ranges::all_of(operands, [&](ValueId value) {
      const Shape& shape = matcher_.shape(value);
      return shape.size() == 4 && shape[0] == out[0] && shape[1] == out[1] &&
             graph::num_elements(shape) > 0;
    });
  }

  void fuse(const Pattern& pattern) {
    for (const bool through_casts : {true, false})
      for (const bool grouped : {true, false})
        if (fuse(pattern, through_casts, grouped)) return;
  }

  bool fuse(const Pattern& pattern, bool through_casts, bool grouped) {
    const Node& scores = *pattern.scores;
    const Node& result = *pattern.result;
    const bool q_swapped = scores.int_attribute("transA", 0) != 0;
    const bool k_swapped = scores.int_attribute("transB", 0) == 0;  // stored as a value is
    const bool v_swapped = result.int_attribute("transB", 0) != 0;
    const auto q = operand(scores.inputs[0], q_swapped, through_casts, false, true);
    const auto k = operand(scores.inputs[1], k_swapped, through_casts, grouped, true);
    const auto v = operand(result.inputs[1], v_swapped, through_casts, grouped, false);
    if (!q || !k || !v || k->repeats != v->repeats) return false;
    const DataType type = matcher_.type(q->source);
    if (matcher_.type(k->source) != type || matcher_.type(v->source) != type) return false;

    const Tail tail = find_tail(graph_, matcher_, result.outputs[0], type);
    if (matcher_.type(tail.value) != type) return false;  // whoever reads it wants all its digits
    std::vector<ValueId> leaves = {scores.inputs[0], scores.inputs[1], result.inputs[1]};
    for (const Mask& mask : pattern.softmax.masks) leaves.push_back(mask.value);
    if (!matcher_.is_closed(tail.value, leaves)) return false;

    const NodeId root = matcher_.uses().producer(tail.value);
    Insertions inserted;
    Node node{graph_.node(root).name, "Attention", internal_domain, {}, {}, {}};
    node.inputs = {inserted.reshape_before(root, graph_, q->source, q->stored.shape, "q"),
                   inserted.reshape_before(root, graph_, k->source, k->stored.shape, "k"),
                   inserted.reshape_before(root, graph_, v->source, v->stored.shape, "v")};
    node.attributes["scale"] = static_cast<float>(pattern.softmax.scale * q->factor * k->factor);
    node.attributes["causal"] = std::int64_t{pattern.causal ? 1 : 0};
    if (pattern.softmax.nan_to_zero) node.attributes["nan_to_zero"] = std::int64_t{1};
    for (const Mask& mask : pattern.softmax.masks) {
      node.inputs.push_back(mask.value);
      if (mask.fill) node.attributes["fill"] = static_cast<float>(*mask.fill);
    }
    set_permutation(node, "q_perm", q->stored);
    set_permutation(node, "k_perm", k->stored);
    set_permutation(node, "v_perm", v->stored);
    set_permutation(node, "out_perm", tail.stored);
    if (!put(graph_, kernels_, std::move(node), tail, root, inserted)) return false;
    insertions_.append(std::move(inserted));
    return true;
  }

  /// The operand as [B, H, *, D], from as far back as it can be read. `swapped`: it is used with
  /// its last two dimensions the other way round.
  std::optional<Operand> operand(ValueId value, bool swapped, bool through_casts, bool grouped,
                                 bool scaled) const {
    if (matcher_.shape(value).size() != 4) return std::nullopt;
    const auto traced = trace(graph_, matcher_, value, through_casts);
    for (auto each = traced.rbegin(); each != traced.rend(); ++each) {
      if (!scaled && each->factor != 1) continue;
      Layout layout = each->layout;
      if (swapped) layout.swap_last_two();
      std::int64_t repeats = 1;
      if (grouped) std::tie(layout, repeats) = layout.without_repeats(heads);
      if (const auto stored = layout.stored(matcher_.shape(each->source)))
        return Operand{each->source, *stored, each->factor, repeats};
    }
    return std::nullopt;
  }

  /// What the mask shows of all keys, if that is the same for each head and, but for the keys that
  /// come later, each query.
  Visibility visibility(const Mask& mask, const Shape& scores) {
    const auto [found, is_new] =
        seen_.try_emplace({mask.value, mask.keeps, mask.fill, mask.type}, Visibility::other);
    if (is_new) found->second = examine(mask, scores);
    return found->second;
  }

  Visibility examine(const Mask& mask, const Shape& scores) const {
    const auto& constant = graph_.value(mask.value).constant;
    if (!constant || !constant->has_data()) return Visibility::other;
    const graph::Tensor tensor = constant->contiguous_copy();
    const std::int64_t queries = scores[scores.size() - 2];
    const std::int64_t keys = scores.back();
    const Shape& shape = tensor.shape();
    const bool is_full = shape.size() >= 2 && shape.back() == keys &&
                         shape[shape.size() - 2] == queries && keys >= queries;
    bool sees_all = true;
    bool is_causal = is_full;
    const bool is_known =
        visit_type(stored_type(tensor.type()), Joined<Floats, Halves, Types<std::uint8_t>>{},
                   [&]<typename T>(T) {
                     const std::span<const T> values = tensor.values<T>();
                     for (std::size_t i = 0; i < values.size() && (sees_all || is_causal); ++i) {
                       const auto seen = is_seen(mask, static_cast<double>(widened(values[i])));
                       const auto index = static_cast<std::int64_t>(i);
                       const std::int64_t query = index / keys % queries;
                       const bool is_earlier = index % keys <= query + keys - queries;
                       sees_all = sees_all && seen == true;
                       is_causal = is_causal && seen == is_earlier;
                     }
                   });
    if (!is_known) return Visibility::other;
    if (sees_all) return Visibility::all;
    return is_causal ? Visibility::causal : Visibility::other;
  }

  /// nullopt where the score is changed without being hidden.
  static std::optional<bool> is_seen(const Mask& mask, double value) {
    if (mask.fill) {
      const bool seen = (value != 0) == mask.keeps;
      return seen || *mask.fill <= invisible(mask.type) ? std::optional(seen) : std::nullopt;
    }
    if (value == 0) return true;
    return value <= invisible(mask.type) ? std::optional(false) : std::nullopt;
  }

  Graph& graph_;
  const KernelTable& kernels_;
  Matcher matcher_;
  Insertions insertions_;
  /// Key of a mask: its value, whether it keeps, its fill, and the type of the scores.
  std::map<std::tuple<ValueId, bool, std::optional<double>, DataType>, Visibility> seen_;
};

}  // namespace

void fuse_attention(Graph& graph, const KernelTable& kernels) {
  AttentionFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
