#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr std::array<std::string_view, 7> movers = {"Cast",    "Reshape",   "Expand", "Identity",
                                                    "Squeeze", "Unsqueeze", "Flatten"};

bool holds_all_of(DataType wide, DataType narrow) {
  const bool are_floats = graph::is_floating_point(wide) && graph::is_floating_point(narrow);
  const bool is_exact = wide == DataType::float32 || wide == DataType::float64;
  return are_floats && is_exact && graph::bits_of(wide) > graph::bits_of(narrow);
}

class IdentityRemoval {
 public:
  explicit IdentityRemoval(Graph& graph)
      : graph_(graph), matcher_(graph), same_as_(graph.values.size()) {
    std::iota(same_as_.begin(), same_as_.end(), 0);
  }

  void run() {
    for (Node& node : graph_.nodes) {
      for (ValueId& input : node.inputs)
        if (input != graph::no_value) input = same_as_[static_cast<std::size_t>(input)];
      if (node.outputs.size() != 1 || matcher_.uses().leaves(node.outputs[0])) continue;
      if (const auto same = unchanged(node))
        same_as_[static_cast<std::size_t>(node.outputs[0])] = *same;
    }
  }

 private:
  /// The value whose type, shape and elements the node's output has.
  std::optional<ValueId> unchanged(const Node& node) const {
    if (!node.domain.empty() || node.inputs.empty()) return std::nullopt;
    ValueId from = node.inputs[0];
    if (node.op_type == "Where") return always_chosen(node);
    if (node.op_type == "Cast") from = before_widening(from, matcher_.type(node.outputs[0]));
    const bool moves_nothing = std::ranges::find(movers, node.op_type) != movers.end() ||
                               (node.op_type == "Transpose" && keeps_order(node));
    const bool is_same = matcher_.type(from) == matcher_.type(node.outputs[0]) &&
                         matcher_.shape(from) == matcher_.shape(node.outputs[0]);
    return moves_nothing && is_same ? std::optional(from) : std::nullopt;
  }

  /// What a Where of a constant condition takes everywhere, if that is not broadcast.
  std::optional<ValueId> always_chosen(const Node& where) const {
    const auto& condition = graph_.value(where.inputs[0]).constant;
    if (!condition || !condition->has_data() || condition->elements() == 0) return std::nullopt;
    const graph::Tensor copy = condition->contiguous_copy();
    const auto is_true = [](std::byte b) { return b != std::byte{0}; };
    const bool first = is_true(copy.bytes()[0]);
    if (std::ranges::any_of(copy.bytes(), [&](std::byte b) { return is_true(b) != first; }))
      return std::nullopt;
    const ValueId chosen = where.inputs[first ? 1 : 2];
    const bool is_same = matcher_.shape(chosen) == matcher_.shape(where.outputs[0]);
    return is_same ? std::optional(chosen) : std::nullopt;
  }

  static bool keeps_order(const Node& transpose) {
    const auto permutation = transpose.ints_attribute("perm", {});
    return !permutation.empty() && std::ranges::is_sorted(permutation);
  }

  /// What a Cast to a type that holds all numbers of `type` was made from; itself where it was not.
  ValueId before_widening(ValueId value, DataType type) const {
    const Node* cast = matcher_.maker(value, "Cast");
    if (cast == nullptr || !holds_all_of(matcher_.type(value), type)) return value;
    return matcher_.type(cast->inputs[0]) == type ? cast->inputs[0] : value;
  }

  Graph& graph_;
  Matcher matcher_;
  std::vector<ValueId> same_as_;
};

}  // namespace

void drop_identities(Graph& graph, const KernelTable&) { IdentityRemoval(graph).run(); }

}  // namespace autopar::runtime::passes
