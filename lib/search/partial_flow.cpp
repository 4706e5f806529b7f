#include "search/partial_flow.h"

#include <algorithm>
#include <set>

#include "graph/error.h"

namespace autopar::search {

namespace {

using graph::NodeId;
using graph::ValueId;
using sharding::FactorKind;
using sharding::ShardingRule;

/// A split of some factor leaves the output a pending sum.
bool sums_into(const ShardingRule& rule, std::size_t output) {
  const auto is_in_output = [&](int factor) {
    return std::ranges::any_of(rule.outputs[output], [&](const std::vector<int>& factors) {
      return std::ranges::find(factors, factor) != factors.end();
    });
  };
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const sharding::Factor& factor = rule.factors[f];
    if (factor.kind == FactorKind::sum && factor.size > 1 && !is_in_output(static_cast<int>(f))) {
      return true;
    }
  }
  return false;
}

}  // namespace

PartialFlow::PartialFlow(const graph::Graph& graph, const NodeRules& rules, const Pins& pins)
    : graph_(graph),
      rules_(rules),
      is_forced_(pins.name_partial_values()),
      readers_(graph::consumers(graph)),
      kept_(graph.values.size(), false) {
  for (const graph::Node& each : graph.nodes) {
    for (const ValueId output : each.outputs) {
      if (output != graph::no_value) {
        kept_[static_cast<std::size_t>(output)] = is_floating_point(graph.value(output).type);
      }
    }
  }
  for (const ValueId output : graph.outputs) kept_[static_cast<std::size_t>(output)] = false;
  settle();
}

/// To the largest set of values that allow each other. Both directions, since what may be kept
/// depends on producers and on readers.
void PartialFlow::settle() {
  const auto count = static_cast<NodeId>(graph_.nodes.size());
  bool changed = true;
  while (changed) {
    changed = false;
    for (NodeId id = 0; id < count; ++id) changed |= drop_where_impossible(id);
    for (NodeId id = count; id-- > 0;) changed |= drop_where_impossible(id);
  }
}

bool PartialFlow::drop_where_impossible(NodeId id) {
  bool changed = false;
  const std::vector<ValueId>& outputs = node(id).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!is_kept(outputs[i]) || (can_be_read(outputs[i]) && can_make(id, i))) continue;
    kept_[static_cast<std::size_t>(outputs[i])] = false;
    changed = true;
  }
  return changed;
}

bool PartialFlow::can_make(NodeId id, std::size_t output) const {
  const auto& rule = rules_[static_cast<std::size_t>(id)];
  if (!rule) return false;
  return sums_into(*rule, output) ||
         std::ranges::any_of(rule->linear, [&](const auto& group) { return may_take(id, group); });
}

bool PartialFlow::can_be_read(ValueId id) const {
  const auto& readers = readers_[static_cast<std::size_t>(id)];
  const auto reads = [&](NodeId reader) { return reads_partial(reader, id); };
  if (is_forced_) return std::ranges::any_of(readers, reads);
  return !readers.empty() && std::ranges::all_of(readers, reads);
}

bool PartialFlow::reads_partial(NodeId id, ValueId value) const {
  return std::ranges::any_of(groups_of(id), [&](const std::vector<int>& group) {
    const auto is_value = [&](int i) {
      return node(id).inputs[static_cast<std::size_t>(i)] == value;
    };
    return std::ranges::count_if(group, is_value) == std::ranges::count(node(id).inputs, value) &&
           may_take(id, group) && (is_forced_ || wins_by(id, group) || keeps_all_outputs(id));
  });
}

const std::vector<std::vector<int>>& PartialFlow::groups_of(NodeId id) const {
  static const std::vector<std::vector<int>> none;
  const auto& rule = rules_[static_cast<std::size_t>(id)];
  return rule ? rule->linear : none;
}

bool PartialFlow::may_take(NodeId id, const std::vector<int>& group) const {
  return std::ranges::all_of(
      group, [&](int i) { return is_kept(node(id).inputs[static_cast<std::size_t>(i)]); });
}

bool PartialFlow::keeps_all_outputs(NodeId id) const {
  return std::ranges::all_of(node(id).outputs, [&](ValueId output) {
    return output == graph::no_value || is_kept(output);
  });
}

/// Fewer tensors, or fewer bytes, are left to be reduced.
bool PartialFlow::wins_by(NodeId id, const std::vector<int>& group) const {
  const auto size_of = [&](ValueId made) {
    if (made == graph::no_value) return std::int64_t{0};
    const graph::Value& value = graph_.value(made);
    return bytes_of(value.type, graph::num_elements(value.shape));
  };
  std::set<ValueId> taken;
  for (const int i : group) taken.insert(node(id).inputs[static_cast<std::size_t>(i)]);
  std::int64_t more = 0;
  for (const ValueId value : taken) more += size_of(value);
  for (const ValueId value : node(id).outputs) more -= size_of(value);
  return taken.size() > node(id).outputs.size() || more > 0;
}

sharding::PartialUse PartialFlow::use_of(NodeId id) const {
  sharding::PartialUse use;
  use.reduces_later = is_forced_;
  for (const ValueId output : node(id).outputs) use.kept.push_back(is_kept(output));
  const auto& groups = groups_of(id);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!may_take(id, groups[g])) continue;
    const bool wins = wins_by(id, groups[g]);
    if (!is_forced_ && !wins && !keeps_all_outputs(id)) continue;
    use.groups.push_back(g);
    use.reduces_later |= wins;
  }
  return use;
}

}  // namespace autopar::search
