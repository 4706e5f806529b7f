#include <algorithm>
#include <array>
#include <map>

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using Permutation = std::vector<std::int64_t>;

/// Elements [begin, end) of the last dimension of another value.
struct Part {
  ValueId of = graph::no_value;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct Rotary {
  ValueId x = graph::no_value;
  ValueId cos = graph::no_value;
  ValueId sin = graph::no_value;
};

class RotaryFusion {
 public:
  RotaryFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), matcher_(graph) {}

  void run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const auto rotary = match(node);
      if (!rotary) continue;
      const std::array leaves = {rotary->x, rotary->cos, rotary->sin};
      if (!matcher_.is_closed(node.outputs[0], leaves)) continue;
      if (!fuse_before_transpose(static_cast<NodeId>(n), *rotary)) fuse(graph_.nodes[n], *rotary);
    }
    insertions_.apply(graph_);
  }

 private:
  void fuse(Node& root, const Rotary& rotary) const {
    Node node = rotary_node(root, rotary);
    if (can_run(kernels_, graph_, node)) root = std::move(node);
  }

  /// Heads that a Transpose has brought to the front are rotated before it, so that an operator
  /// behind can take the Transpose in.
  bool fuse_before_transpose(NodeId root, Rotary rotary) {
    const Node* transpose = matcher_.maker(rotary.x, "Transpose");
    if (transpose == nullptr) return false;
    const Permutation permutation = transpose->ints_attribute("perm", {});
    const auto cos = shape_before(permutation, matcher_.shape(rotary.cos));
    const auto sin = shape_before(permutation, matcher_.shape(rotary.sin));
    if (!cos || !sin) return false;
    rotary = {transpose->inputs[0], reshaped(root, rotary.cos, *cos),
              reshaped(root, rotary.sin, *sin)};
    Node rotated = rotary_node(graph_.node(root), rotary);
    rotated.name += ":rotated";
    rotated.outputs = {graph_.add_value(
        {rotated.name, graph_.value(rotary.x).type, graph_.value(rotary.x).shape, std::nullopt})};
    if (!can_run(kernels_, graph_, rotated)) return false;
    Node& back = graph_.node(root);
    back.op_type = "Transpose";
    back.inputs = rotated.outputs;
    back.attributes = {{"perm", permutation}};
    insertions_.before(root, std::move(rotated));
    return true;
  }

  static Node rotary_node(const Node& root, const Rotary& rotary) {
    return {root.name,       "RotaryEmbedding",
            internal_domain, {rotary.x, rotary.cos, rotary.sin},
            root.outputs,    {}};
  }

  /// The shape that a factor of the transposed tensor has before the Transpose; nullopt where
  /// its elements would have to change places.
  static std::optional<Shape> shape_before(const Permutation& permutation, Shape factor) {
    if (factor.size() > permutation.size() || permutation.empty()) return std::nullopt;
    factor.insert(factor.begin(), permutation.size() - factor.size(), 1);
    const auto last = static_cast<std::int64_t>(permutation.size()) - 1;
    std::int64_t previous = -1;
    Shape before(factor.size(), 1);
    for (std::size_t d = 0; d < factor.size(); ++d) {
      if (factor[d] == 1) continue;
      if (permutation[d] < previous) return std::nullopt;
      previous = permutation[d];
      before[static_cast<std::size_t>(permutation[d])] = factor[d];
    }
    return permutation.back() == last ? std::optional(before) : std::nullopt;
  }

  /// Once for all layers that read the same.
  ValueId reshaped(NodeId root, ValueId value, const Shape& shape) {
    const auto [found, is_new] = reshaped_.try_emplace({value, shape}, value);
    if (!is_new || graph_.value(value).shape == shape) return found->second;
    const auto& constant = graph_.value(value).constant;
    if (constant && constant->is_contiguous())
      found->second = graph_.add_constant(graph_.value(value).name, constant->reshaped(shape));
    else
      found->second = insertions_.reshape_before(root, graph_, value, shape,
                                                 fmt::format("factor{}", reshaped_.size()));
    return found->second;
  }

  std::optional<Rotary> match(const Node& node) const {
    if (!node.domain.empty() || node.op_type != "Add" || node.inputs.size() != 2)
      return std::nullopt;
    for (const std::size_t turned : {0U, 1U}) {
      const Node* rotated = matcher_.maker(node.inputs[turned], "Mul");
      const Node* straight = matcher_.maker(node.inputs[1 - turned], "Mul");
      if (rotated == nullptr || straight == nullptr) continue;
      ValueId x = graph::no_value;
      const auto sin = matcher_.beside(rotated, [&](ValueId half) {
        const auto before = before_rotation(half);
        if (before) x = *before;
        return before.has_value();
      });
      const auto cos = matcher_.beside(straight, [&](ValueId factor) { return factor == x; });
      if (sin && cos && matcher_.shape(x) == matcher_.shape(node.outputs[0]))
        return Rotary{x, *cos, *sin};
    }
    return std::nullopt;
  }

  /// x where the value is -x[..., d/2:] followed by x[..., :d/2].
  std::optional<ValueId> before_rotation(ValueId value) const {
    const Node* halves = matcher_.maker(value, "Concat");
    if (halves == nullptr || halves->inputs.size() != 2) return std::nullopt;
    const Shape& shape = matcher_.shape(value);
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    const std::int64_t axis = halves->int_attribute("axis", 0);
    if ((axis != -1 && axis != last) || shape.back() % 2 != 0) return std::nullopt;
    const auto upper = negated_part(halves->inputs[0]);
    const auto lower = part(halves->inputs[1]);
    const std::int64_t half = shape.back() / 2;
    const bool are_halves = upper && lower && upper->of == lower->of && lower->begin == 0 &&
                            lower->end == half && upper->begin == half &&
                            upper->end == shape.back() && matcher_.shape(lower->of) == shape;
    return are_halves ? std::optional(lower->of) : std::nullopt;
  }

  /// The Neg may come before or after the cut.
  std::optional<Part> negated_part(ValueId value) const {
    if (const Node* negation = matcher_.maker(value, "Neg")) return part(negation->inputs[0]);
    auto cut = part(value);
    const Node* negation = cut ? matcher_.maker(cut->of, "Neg") : nullptr;
    if (negation == nullptr) return std::nullopt;
    cut->of = negation->inputs[0];
    return cut;
  }

  std::optional<Part> part(ValueId value) const {
    if (const Node* slice = matcher_.maker(value, "Slice")) return sliced(*slice);
    if (const Node* split = matcher_.maker(value, "Split")) return split_off(*split, value);
    return std::nullopt;
  }

  std::optional<Part> sliced(const Node& slice) const {
    const Shape& shape = matcher_.shape(slice.inputs[0]);
    const auto operand = [&](std::size_t i) -> std::optional<double> {
      return i < slice.inputs.size() ? matcher_.number(slice.inputs[i]) : std::nullopt;
    };
    const auto begin = operand(1);
    const auto end = operand(2);
    const auto axis = operand(3);
    const bool has_steps = slice.inputs.size() > 4;
    if (!begin || !end || !axis || shape.empty() || (has_steps && operand(4) != 1.0))
      return std::nullopt;
    if (*axis != -1 && *axis != static_cast<double>(shape.size()) - 1) return std::nullopt;
    const auto clamped = [&](double index) {
      const auto extent = static_cast<double>(shape.back());
      return static_cast<std::int64_t>(std::clamp(index < 0 ? index + extent : index, 0.0, extent));
    };
    return Part{slice.inputs[0], clamped(*begin), clamped(*end)};
  }

  std::optional<Part> split_off(const Node& split, ValueId value) const {
    const Shape& shape = matcher_.shape(split.inputs[0]);
    const std::int64_t axis = split.int_attribute("axis", 0);
    if (axis != -1 && axis != static_cast<std::int64_t>(shape.size()) - 1) return std::nullopt;
    std::int64_t begin = 0;
    for (const ValueId output : split.outputs) {
      if (output == graph::no_value) return std::nullopt;
      const std::int64_t end = begin + matcher_.shape(output).back();
      if (output == value) return Part{split.inputs[0], begin, end};
      begin = end;
    }
    return std::nullopt;
  }

  Graph& graph_;
  const KernelTable& kernels_;
  Matcher matcher_;
  Insertions insertions_;
  std::map<std::pair<ValueId, Shape>, ValueId> reshaped_;
};

}  // namespace

void fuse_rotary_embeddings(Graph& graph, const KernelTable& kernels) {
  RotaryFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
