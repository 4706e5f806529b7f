#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

constexpr std::array<std::string_view, 7> movers = {"Cast",    "Reshape",   "Expand", "Identity",
                                                    "Squeeze", "Unsqueeze", "Flatten"};

bool keeps_order(const Node& transpose) {
  const auto permutation = transpose.ints_attribute("perm", {});
  return !permutation.empty() && std::ranges::is_sorted(permutation);
}

/// What a Cast to a type that holds all numbers of `type` was made from; itself where it was not.
ValueId before_widening(const Matcher& matcher, ValueId value, DataType type) {
  const Node* cast = matcher.maker(value, "Cast");
  if (cast == nullptr || !holds_all_of(matcher.type(value), type)) return value;
  return matcher.type(cast->inputs[0]) == type ? cast->inputs[0] : value;
}

/// What a Where of a constant condition takes everywhere, if that is not broadcast.
std::optional<ValueId> always_chosen(const Matcher& matcher, const Node& where) {
  const auto condition = matcher.data(where.inputs[0]);
  if (!condition || condition->elements() == 0) return std::nullopt;
  const auto is_true = [](std::byte b) { return b != std::byte{0}; };
  const bool first = is_true(condition->bytes()[0]);
  if (std::ranges::any_of(condition->bytes(), [&](std::byte b) { return is_true(b) != first; }))
    return std::nullopt;
  const ValueId chosen = where.inputs[first ? 1 : 2];
  const bool is_same = matcher.shape(chosen) == matcher.shape(where.outputs[0]);
  return is_same ? std::optional(chosen) : std::nullopt;
}

/// The value whose type, shape and elements the node's output has.
std::optional<ValueId> unchanged(const Matcher& matcher, const Node& node) {
  if (!node.domain.empty() || node.inputs.empty()) return std::nullopt;
  if (node.op_type == "Where") return always_chosen(matcher, node);
  const ValueId to = node.outputs[0];
  ValueId from = node.inputs[0];
  if (node.op_type == "Cast") from = before_widening(matcher, from, matcher.type(to));
  const bool moves_nothing = std::ranges::find(movers, node.op_type) != movers.end() ||
                             (node.op_type == "Transpose" && keeps_order(node));
  const bool is_same =
      matcher.type(from) == matcher.type(to) && matcher.shape(from) == matcher.shape(to);
  return moves_nothing && is_same ? std::optional(from) : std::nullopt;
}

}  // namespace

void drop_identities(Graph& graph, const KernelTable&) {
  const Matcher matcher(graph);
  std::vector<ValueId> same_as(graph.values.size());
  std::iota(same_as.begin(), same_as.end(), 0);
  for (Node& node : graph.nodes) {
    for (ValueId& input : node.inputs)
      if (input != graph::no_value) input = same_as[static_cast<std::size_t>(input)];
    if (node.outputs.size() != 1 || matcher.is_output(node.outputs[0])) continue;
    if (const auto same = unchanged(matcher, node))
      same_as[static_cast<std::size_t>(node.outputs[0])] = *same;
  }
}

}  // namespace autopar::runtime::passes
