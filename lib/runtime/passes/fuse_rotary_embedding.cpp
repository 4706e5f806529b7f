#include <array>
#include <map>

#include "runtime/passes/layout.h"

namespace autopar::runtime::passes {
namespace {

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

bool is_last(std::int64_t axis, const Shape& shape) {
  return axis == -1 || axis == std::ssize(shape) - 1;
}

std::optional<Part> sliced(const Matcher& matcher, const Node& slice) {
  const Shape& shape = matcher.shape(slice.inputs[0]);
  const auto operand = [&](std::size_t i) -> std::optional<double> {
    return i < slice.inputs.size() ? matcher.number(slice.inputs[i]) : std::nullopt;
  };
  const auto begin = operand(1);
  const auto end = operand(2);
  const auto axis = operand(3);
  const bool has_steps = slice.inputs.size() > 4;
  if (!begin || !end || !axis || shape.empty() || (has_steps && operand(4) != 1.0) ||
      !is_last(static_cast<std::int64_t>(*axis), shape))
    return std::nullopt;
  const auto clamped = [&](double index) {
    const auto extent = static_cast<double>(shape.back());
    return static_cast<std::int64_t>(std::clamp(index < 0 ? index + extent : index, 0.0, extent));
  };
  return Part{slice.inputs[0], clamped(*begin), clamped(*end)};
}

std::optional<Part> split_off(const Matcher& matcher, const Node& split, ValueId value) {
  if (!is_last(split.int_attribute("axis", 0), matcher.shape(split.inputs[0]))) return std::nullopt;
  std::int64_t begin = 0;
  for (const ValueId output : split.outputs) {
    if (output == graph::no_value) return std::nullopt;
    const std::int64_t end = begin + matcher.shape(output).back();
    if (output == value) return Part{split.inputs[0], begin, end};
    begin = end;
  }
  return std::nullopt;
}

std::optional<Part> part(const Matcher& matcher, ValueId value) {
  if (const Node* slice = matcher.maker(value, "Slice")) return sliced(matcher, *slice);
  if (const Node* split = matcher.maker(value, "Split")) return split_off(matcher, *split, value);
  return std::nullopt;
}

/// The Neg may come before or after the cut.
std::optional<Part> negated_part(const Matcher& matcher, ValueId value) {
  if (const Node* negation = matcher.maker(value, "Neg")) return part(matcher, negation->inputs[0]);
  auto cut = part(matcher, value);
  const Node* negation = cut ? matcher.maker(cut->of, "Neg") : nullptr;
  if (negation == nullptr) return std::nullopt;
  cut->of = negation->inputs[0];
  return cut;
}

/// x where the value is -x[..., d/2:] followed by x[..., :d/2].
std::optional<ValueId> before_rotation(const Matcher& matcher, ValueId value) {
  const Node* halves = matcher.maker(value, "Concat");
  if (halves == nullptr || halves->inputs.size() != 2) return std::nullopt;
  const Shape& shape = matcher.shape(value);
  if (!is_last(halves->int_attribute("axis", 0), shape) || shape.back() % 2 != 0)
    return std::nullopt;
  const auto upper = negated_part(matcher, halves->inputs[0]);
  const auto lower = part(matcher, halves->inputs[1]);
  const std::int64_t half = shape.back() / 2;
  const bool are_halves = upper && lower && upper->of == lower->of && lower->begin == 0 &&
                          lower->end == half && upper->begin == half &&
                          upper->end == shape.back() && matcher.shape(lower->of) == shape;
  return are_halves ? std::optional(lower->of) : std::nullopt;
}

std::optional<Rotary> match(const Matcher& matcher, const Node& node) {
  if (!is_onnx(node, "Add") || node.inputs.size() != 2) return std::nullopt;
  for (const std::size_t turned : {0U, 1U}) {
    const Node* rotated = matcher.maker(node.inputs[turned], "Mul");
    const Node* straight = matcher.maker(node.inputs[1 - turned], "Mul");
    std::optional<ValueId> x;
    const auto sin = matcher.beside(rotated, [&](ValueId half) {
      x = before_rotation(matcher, half);
      return x.has_value();
    });
    const auto cos = matcher.beside(straight, [&](ValueId factor) { return factor == x; });
    if (sin && cos && matcher.shape(*x) == matcher.shape(node.outputs[0]))
      return Rotary{*x, *cos, *sin};
  }
  return std::nullopt;
}

/// The shape that a factor of the transposed tensor has before the Transpose; nullopt where
/// its elements would have to change places.
std::optional<Shape> shape_before(const Permutation& permutation, Shape factor) {
  if (factor.size() > permutation.size() || permutation.empty()) return std::nullopt;
  factor.insert(factor.begin(), permutation.size() - factor.size(), 1);
  std::int64_t previous = -1;
  Shape before(factor.size(), 1);
  for (std::size_t d = 0; d < factor.size(); ++d) {
    if (factor[d] == 1) continue;
    if (permutation[d] < previous) return std::nullopt;
    previous = permutation[d];
    before[static_cast<std::size_t>(permutation[d])] = factor[d];
  }
  const bool keeps_rows = permutation.back() == std::ssize(permutation) - 1;
  return keeps_rows ? std::optional(before) : std::nullopt;
}

/// Factors in another shape: once for all layers that read the same.
using Reshaped = std::map<std::pair<ValueId, Shape>, ValueId>;

ValueId reshaped(Pass& pass, NodeId root, ValueId value, const Shape& shape, Reshaped& known) {
  const auto [found, is_new] = known.try_emplace({value, shape}, value);
  if (!is_new || pass.shape(value) == shape) return found->second;
  const auto& constant = pass.graph.value(value).constant;
  if (constant && constant->is_contiguous())
    found->second =
        pass.graph.add_constant(pass.graph.value(value).name, constant->reshaped(shape));
  else
    found->second = pass.insertions.reshape_before(root, pass.graph, value, shape,
                                                   fmt::format("factor{}", known.size()));
  return found->second;
}

Node rotary_node(const Node& root, const Rotary& rotary) {
  return {root.name,       "RotaryEmbedding",
          internal_domain, {rotary.x, rotary.cos, rotary.sin},
          root.outputs,    {}};
}

/// Heads that a Transpose has brought to the front are rotated before it, so that an operator
/// behind can take the Transpose in: the Transpose, behind the rotation.
std::optional<Node> rotated_before_transpose(Pass& pass, const Node& root, const Rotary& behind,
                                             Reshaped& known) {
  const Node* transpose = pass.maker(behind.x, "Transpose");
  if (transpose == nullptr) return std::nullopt;
  const Permutation permutation = transpose->ints_attribute("perm", {});
  const auto cos = shape_before(permutation, pass.shape(behind.cos));
  const auto sin = shape_before(permutation, pass.shape(behind.sin));
  if (!cos || !sin) return std::nullopt;
  const NodeId place = pass.producer(root.outputs[0]);
  const ValueId x = transpose->inputs[0];
  const ValueId cos_before = reshaped(pass, place, behind.cos, *cos, known);
  const ValueId sin_before = reshaped(pass, place, behind.sin, *sin, known);
  Node rotated = rotary_node(root, {x, cos_before, sin_before});
  rotated.name += ":rotated";
  rotated.outputs = {
      pass.graph.add_value({rotated.name, pass.type(x), pass.shape(x), std::nullopt})};
  if (!pass.can_run(rotated)) return std::nullopt;
  Node back = root;
  back.op_type = "Transpose";
  back.inputs = rotated.outputs;
  back.attributes = {{"perm", permutation}};
  pass.insertions.before(place, std::move(rotated));
  return back;
}

}  // namespace

void fuse_rotary_embeddings(Graph& graph, const KernelTable& kernels) {
  Reshaped known;
  rewrite_nodes(graph, kernels, [&](Pass& pass, const Node& node) -> std::optional<Node> {
    const auto rotary = match(pass, node);
    if (!rotary) return std::nullopt;
    const std::array leaves = {rotary->x, rotary->cos, rotary->sin};
    if (!pass.is_closed(node.outputs[0], leaves)) return std::nullopt;
    auto transpose = rotated_before_transpose(pass, node, *rotary, known);
    return transpose ? transpose : pass.if_it_runs(rotary_node(node, *rotary));
  });
}

}  // namespace autopar::runtime::passes
