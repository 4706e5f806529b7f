#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "runtime/kernels/common/element_types.h"
#include "runtime/passes/constant_value.h"
#include "runtime/passes/fuse_masked_softmax.h"
#include "runtime/passes/layout.h"

namespace autopar::runtime::passes {
namespace {

/// Scores this low, or made lower by this, are how exporters say that a key is not seen: with the
/// lowest number of the type, or nearly that. Scores would have to come near it themselves to show
/// such a key again, which -1e9 does not keep them from.
double invisible(DataType type) { return type == DataType::float16 ? -65504 : -1e30; }

/// What may be made to see which keys a mask hides: boolean masks of 8,192 by 8,192 and what makes
/// them. Such masks are then not computed in any run.
constexpr std::int64_t most_mask_bytes = std::int64_t{256} << 20;

constexpr std::size_t heads = 1;  ///< the dimension of [B, H, S, D]

/// How many samples and heads there are: B and H.
using Heads = std::array<std::int64_t, 2>;

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
  SoftmaxForm softmax;      ///< without the masks that need not be read
  std::vector<Mask> masks;  ///< all of them
  bool causal = false;
};

/// nullopt where the score is changed without being hidden.
std::optional<bool> is_seen(const Mask& mask, double value) {
  if (mask.fill) {
    const bool seen = (value != 0) == mask.keeps;
    return seen || *mask.fill <= invisible(mask.type) ? std::optional(seen) : std::nullopt;
  }
  if (value == 0) return true;
  return value <= invisible(mask.type) ? std::optional(false) : std::nullopt;
}

/// The boolean mask by which a Where chooses what is added: nothing, or what hides. Such a Where is
/// larger than its condition, so that it is not computed beforehand even where that is constant.
Mask as_condition(const Matcher& matcher, const Mask& mask) {
  const Node* where = mask.fill ? nullptr : matcher.maker(matcher.uncast(mask.value), "Where");
  if (where == nullptr) return mask;
  for (const bool keeps : {true, false}) {
    const auto fill = matcher.number(where->inputs[keeps ? 2 : 1]);
    if (fill && matcher.is_number(where->inputs[keeps ? 1 : 2], 0))
      return {where->inputs[0], fill, keeps, mask.type, mask.shape};
  }
  return mask;
}

/// What the mask shows of all keys, if that is the same for each head and, but for the keys that
/// come later, each query.
Visibility visibility(const Matcher& matcher, const Mask& given, const Shape& scores) {
  const Mask mask = as_condition(matcher, given);
  const auto tensor = constant_value(matcher, mask.value, most_mask_bytes);
  if (!tensor) return Visibility::other;
  const std::int64_t queries = scores[scores.size() - 2];
  const std::int64_t keys = scores.back();
  const Shape& shape = tensor->shape();
  const bool is_full = shape.size() >= 2 && shape.back() == keys &&
                       shape[shape.size() - 2] == queries && keys >= queries;
  bool sees_all = true;
  bool is_causal = is_full;
  const bool is_known =
      visit_type(stored_type(tensor->type()), Joined<Floats, Halves, Types<std::uint8_t>>{},
                 [&]<typename T>(T) {
                   std::int64_t query = 0;  // counted, since masks are large and divisions slow
                   std::int64_t key = 0;
                   for (const T value : tensor->values<T>()) {
                     const auto seen = is_seen(mask, static_cast<double>(widened(value)));
                     const bool is_earlier = key <= query + keys - queries;
                     sees_all = sees_all && seen == true;
                     is_causal = is_causal && seen == is_earlier;
                     if (!sees_all && !is_causal) break;
                     if (++key < keys) continue;
                     key = 0;
                     query = (query + 1) % queries;
                   }
                 });
  if (!is_known) return Visibility::other;
  if (sees_all) return Visibility::all;
  return is_causal ? Visibility::causal : Visibility::other;
}

/// What masks show, each looked at once.
using Visibilities = std::map<Mask, Visibility>;

/// [B, H, *, *] or [B x H, *, *] on all sides of both products, so that nothing is broadcast.
bool have_same_batch(const Matcher& matcher, const Pattern& pattern) {
  const Shape& out = matcher.shape(pattern.result->outputs[0]);
  const std::array operands = {pattern.scores->inputs[0], pattern.scores->inputs[1],
                               pattern.result->inputs[0], pattern.result->inputs[1]};
  return std::ranges::all_of(operands, [&](ValueId value) {
    const Shape& shape = matcher.shape(value);
    return shape.size() == out.size() && std::equal(out.begin(), out.end() - 2, shape.begin()) &&
           graph::num_elements(shape) > 0;
  });
}

/// Drops the masks that hide nothing, and those that hide later keys; whether there was one.
bool drop_causal_masks(const Matcher& matcher, SoftmaxForm& softmax, Visibilities& known) {
  const Shape& scores = matcher.shape(softmax.scores);
  bool causal = false;
  bool may_show_again = false;  // what masks below hide
  std::erase_if(softmax.masks, [&](const Mask& mask) {
    const auto [found, is_new] = known.try_emplace(mask, Visibility::other);
    if (is_new) found->second = visibility(matcher, mask, scores);
    const Visibility seen = found->second;
    const bool is_causal = seen == Visibility::causal && !may_show_again;
    causal = causal || is_causal;
    if (is_causal || seen == Visibility::all) return true;
    may_show_again = may_show_again || (mask.fill && *mask.fill > invisible(mask.type));
    return false;
  });
  return causal;
}

std::optional<Pattern> match(const Matcher& matcher, ValueId value, Visibilities& known) {
  Pattern pattern;
  pattern.result = matcher.product(value);
  const std::size_t rank = matcher.shape(value).size();
  if (pattern.result == nullptr || (rank != 3 && rank != 4) ||
      pattern.result->int_attribute("transA", 0) != 0 ||
      graph::num_elements(matcher.shape(value)) == 0)
    return std::nullopt;
  constexpr std::size_t most_masks = 4;
  const auto softmax = match_softmax(matcher, pattern.result->inputs[0], most_masks,
                                     {.casts = true, .reshapes = true});
  if (!softmax) return std::nullopt;
  pattern.softmax = *softmax;
  pattern.scores = matcher.product(softmax->scores);
  if (pattern.scores == nullptr || !have_same_batch(matcher, pattern)) return std::nullopt;
  pattern.masks = softmax->masks;
  pattern.causal = drop_causal_masks(matcher, pattern.softmax, known);
  const auto& left = pattern.softmax.masks;
  const bool is_expressible = left.empty() || (left.size() == 1 && left[0].keeps);
  return is_expressible ? std::optional(pattern) : std::nullopt;
}

/// How far back operands are read from.
struct Reach {
  bool through_casts = false;
  bool grouped = false;  ///< K and V from before their heads are repeated
};

Shape with_heads(const Heads& outer, const Shape& shape) {
  return {outer[0], outer[1], shape[shape.size() - 2], shape.back()};
}

/// The operand as [B, H, *, D], from as far back as it can be read. `swapped`: it is used with
/// its last two dimensions the other way round.
std::optional<Operand> operand(const Matcher& matcher, ValueId value, const Heads& outer,
                               bool swapped, Reach reach, bool scaled) {
  const auto traced = trace(matcher, value, reach.through_casts);
  for (auto each = traced.rbegin(); each != traced.rend(); ++each) {
    if (!scaled && each->factor != 1) continue;
    const auto split = each->layout.reshaped(with_heads(outer, matcher.shape(value)));
    if (!split) continue;
    Layout layout = *split;
    if (swapped) layout.swap_last_two();
    std::int64_t repeats = 1;
    if (reach.grouped) std::tie(layout, repeats) = layout.without_repeats(heads);
    if (const auto stored = layout.stored(matcher.shape(each->source)))
      return Operand{each->source, *stored, each->factor, repeats};
  }
  return std::nullopt;
}

/// What the first dimensions may be as B and H, the best first: where products have one for both,
/// as masks have them, or as queries and keys are made; one batch of all heads else.
std::vector<Heads> possible_heads(const Matcher& matcher, const Pattern& pattern) {
  const Shape& out = matcher.shape(pattern.result->outputs[0]);
  if (out.size() == 4) return {{out[0], out[1]}};
  std::vector<Heads> possible;
  for (const Mask& mask : pattern.masks)
    if (mask.shape.size() == 4) return {{mask.shape[0], mask.shape[1]}};
  for (const ValueId value : pattern.scores->inputs) {
    const Layout made = trace(matcher, value, true).back().layout.without_repeats(0).first;
    if (const auto batch = made.major_extent(0); batch && out[0] % *batch == 0)
      possible.push_back({*batch, out[0] / *batch});
  }
  possible.push_back({1, out[0]});
  return possible;
}

/// The mask, or as a tensor that broadcasts to [B, H, *, *] too.
ValueId mask_under(Insertions& inserted, Pass& pass, NodeId root, const Mask& mask,
                   const Heads& outer) {
  const Shape& shape = pass.shape(mask.value);
  const bool is_of_all = mask.shape.size() == 3 && shape.size() == 3 && shape[0] > 1;
  return is_of_all ? inserted.reshape_before(root, pass.graph, mask.value, with_heads(outer, shape),
                                             "mask")
                   : mask.value;
}

bool fuse(Pass& pass, const Pattern& pattern, const Heads& outer, Reach reach) {
  const Node& scores = *pattern.scores;
  const Node& result = *pattern.result;
  const bool q_swapped = scores.int_attribute("transA", 0) != 0;
  const bool k_swapped = scores.int_attribute("transB", 0) == 0;  // stored as a value is
  const bool v_swapped = result.int_attribute("transB", 0) != 0;
  const auto q = operand(pass, scores.inputs[0], outer, q_swapped, {reach.through_casts}, true);
  const auto k = operand(pass, scores.inputs[1], outer, k_swapped, reach, true);
  const auto v = operand(pass, result.inputs[1], outer, v_swapped, reach, false);
  if (!q || !k || !v || k->repeats != v->repeats) return false;
  const DataType type = pass.type(q->source);
  if (pass.type(k->source) != type || pass.type(v->source) != type) return false;

  const double scale = pattern.softmax.scale * q->factor * k->factor;
  if (!is_moderate(scale)) return false;

  const ValueId out = result.outputs[0];
  const Tail tail = find_tail(pass, out, with_heads(outer, pass.shape(out)), type);
  if (pass.type(tail.value) != type) return false;  // whoever reads it wants all its digits
  std::vector<ValueId> leaves = {scores.inputs[0], scores.inputs[1], result.inputs[1]};
  for (const Mask& mask : pattern.masks) leaves.push_back(mask.value);
  if (!pass.is_closed(tail.value, leaves)) return false;

  const NodeId root = pass.producer(tail.value);
  Insertions inserted;
  const auto read = [&](const Operand& from, const char* name) {
    return inserted.reshape_before(root, pass.graph, from.source, from.stored.shape, name);
  };
  Node node{pass.graph.node(root).name, "Attention", internal_domain, {}, {}, {}};
  node.inputs = {read(*q, "q"), read(*k, "k"), read(*v, "v")};
  node.attributes["scale"] = static_cast<float>(scale);
  node.attributes["causal"] = std::int64_t{pattern.causal ? 1 : 0};
  if (pattern.softmax.nan_to_zero) node.attributes["nan_to_zero"] = std::int64_t{1};
  for (const Mask& mask : pattern.softmax.masks) {
    node.inputs.push_back(mask_under(inserted, pass, root, mask, outer));
    if (mask.fill) node.attributes["fill"] = static_cast<float>(*mask.fill);
  }
  set_permutation(node, "q_perm", q->stored);
  set_permutation(node, "k_perm", k->stored);
  set_permutation(node, "v_perm", v->stored);
  set_permutation(node, "out_perm", tail.stored);
  return put(pass, std::move(node), tail, std::move(inserted));
}

void fuse_somehow(Pass& pass, const Pattern& pattern) {
  constexpr std::array<Reach, 4> farthest_first = {
      {{true, true}, {true, false}, {false, true}, {false, false}}};
  for (const Reach reach : farthest_first)
    for (const Heads& outer : possible_heads(pass, pattern))
      if (fuse(pass, pattern, outer, reach)) return;
}

}  // namespace

void fuse_attention(Graph& graph, const KernelTable& kernels) {
  Pass pass(graph, kernels);
  Visibilities known;
  for (const Node& node : graph.nodes) {
    if (node.outputs.size() != 1) continue;
    if (const auto pattern = match(pass, node.outputs[0], known)) fuse_somehow(pass, *pattern);
  }
  pass.insertions.apply(graph);
}

}  // namespace autopar::runtime::passes
