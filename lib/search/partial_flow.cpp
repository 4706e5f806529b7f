#include "search/partial_flow.h"

#include <algorithm>
#include <set>

#include "base/error.h"

namespace autopar::search {

namespace {

using graph::NodeId;
using graph::ValueId;

bool holds(const std::vector<std::vector<int>>& tensor, int factor) {
  return std::ranges::any_of(tensor, [factor](const std::vector<int>& factors) {
    return std::ranges::find(factors, factor) != factors.end();
  });
}

/// Some factor is in at least so many inputs, and a split of it leaves pending sums.
bool sums(const sharding::ShardingRule& rule, std::ptrdiff_t least_inputs) {
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const sharding::Factor& factor = rule.factors[f];
    if (factor.kind != sharding::FactorKind::sum || factor.size <= 1) continue;
    const auto has_factor = [f](const auto& tensor) { return holds(tensor, static_cast<int>(f)); };
    if (std::ranges::count_if(rule.inputs, has_factor) >= least_inputs) return true;
  }
  return false;
}

}  // namespace

NodeRules rules_of(const graph::Graph& graph) {
  NodeRules rules;
  for (const graph::Node& node : graph.nodes) {
    rules.push_back(sharding::sharding_rule(graph, node));
  }
  return rules;
}

PartialFlow::PartialFlow(const graph::Graph& graph, const NodeRules& rules, KeepPartial keep)
    : graph_(graph),
      rules_(rules),
      is_forced_(keep == KeepPartial::anywhere),
      readers_(graph::consumers(graph)),
      kept_(graph.values.size(), false),
      origins_(graph.values.size(), graph::no_value) {
  for (const auto& rule : rules) {
    sums_.push_back(rule && sums(*rule, 1));
    multiplies_.push_back(rule && sums(*rule, 2));
  }
  if (keep == KeepPartial::never) return;
  for (const graph::Node& node : graph.nodes) {
    for (const ValueId value : node.outputs) {
      if (value != graph::no_value) kept_[value] = is_floating_point(graph.value(value).type);
    }
  }
  for (const ValueId value : graph.outputs) kept_[value] = false;
  settle();
}

/// To a set of values that allow each other, from all of them down. In both directions, since what
/// may be kept depends on producers and on readers.
void PartialFlow::settle() {
  const auto count = static_cast<NodeId>(graph_.nodes.size());
  bool changed = true;
  while (changed) {
    changed = false;
    for (NodeId id = 0; id < count; ++id) {
      set_origins(id);
      changed |= drop_outputs(id);
    }
    for (NodeId id = count; id-- > 0;) changed |= drop_outputs(id);
  }
}

bool PartialFlow::drop_outputs(NodeId id) {
  bool changed = false;
  for (const ValueId value : graph_.node(id).outputs) {
    if (!is_kept(value) || (can_be_read(value) && can_be_made(id))) continue;
    kept_[value] = false;
    changed = true;
  }
  return changed;
}

bool PartialFlow::can_be_made(NodeId id) const {
  return sums_[id] || std::ranges::any_of(groups_of(id),
                                          [&](const Group& group) { return can_take(id, group); });
}

bool PartialFlow::can_be_read(ValueId value) const {
  const std::vector<NodeId>& readers = readers_[value];
  const auto reads = [&](NodeId reader) { return reads_partial(reader, value); };
  if (is_forced_) return std::ranges::any_of(readers, reads);
  return !readers.empty() && std::ranges::all_of(readers, reads);
}

/// Wherever the operator reads the value.
bool PartialFlow::reads_partial(NodeId id, ValueId value) const {
  const std::vector<ValueId>& inputs = graph_.node(id).inputs;
  return std::ranges::any_of(groups_of(id), [&](const Group& group) {
    return std::ranges::count(values_of(id, group), value) == std::ranges::count(inputs, value) &&
           can_take(id, group) && is_worth_taking(id, group);
  });
}

bool PartialFlow::can_take(NodeId id, const Group& group) const {
  if (multiplies_[id] && !is_forced_) return false;
  return std::ranges::all_of(values_of(id, group), [&](ValueId value) { return is_kept(value); });
}

bool PartialFlow::is_worth_taking(NodeId id, const Group& group) const {
  return is_forced_ || joins(id, group) || keeps_all_outputs(id);
}

bool PartialFlow::keeps_all_outputs(NodeId id) const {
  return std::ranges::all_of(graph_.node(id).outputs, [&](ValueId value) {
    return value == graph::no_value || is_kept(value);
  });
}

bool PartialFlow::joins(NodeId id, const Group& group) const {
  const std::vector<ValueId> values = values_of(id, group);
  return sums_[id] || std::ranges::any_of(values, [&](ValueId value) {
           return origins_[value] != origins_[values.front()];
         });
}

void PartialFlow::set_origins(NodeId id) {
  std::set<ValueId> origins;
  for (const Group& group : groups_of(id)) {
    if (!can_take(id, group)) continue;
    for (const ValueId value : values_of(id, group)) origins.insert(origins_[value]);
  }
  const bool is_carried = origins.size() == 1 && !sums_[id];
  for (const ValueId value : graph_.node(id).outputs) {
    if (value != graph::no_value) origins_[value] = is_carried ? *origins.begin() : value;
  }
}

bool PartialFlow::is_kept(ValueId value) const { return value != graph::no_value && kept_[value]; }

std::vector<ValueId> PartialFlow::values_of(NodeId id, const Group& group) const {
  std::vector<ValueId> values;
  for (const int i : group) values.push_back(graph_.node(id).inputs[i]);
  return values;
}

const std::vector<PartialFlow::Group>& PartialFlow::groups_of(NodeId id) const {
  static const std::vector<Group> none;
  const auto& rule = rules_[id];
  return rule ? rule->linear : none;
}

sharding::PartialUse PartialFlow::use_of(NodeId id) const {
  sharding::PartialUse use;
  use.reduces_later = is_forced_;
  for (const ValueId value : graph_.node(id).outputs) use.kept.push_back(is_kept(value));
  const std::vector<Group>& groups = groups_of(id);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!can_take(id, groups[g]) || !is_worth_taking(id, groups[g])) continue;
    use.groups.push_back(g);
    use.reduces_later |= joins(id, groups[g]);
  }
  return use;
}

}  // namespace autopar::search
