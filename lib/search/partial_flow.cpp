#include "search/partial_flow.h"

#include <algorithm>
#include <set>

namespace autopar::search {

namespace {

using graph::NodeId;
using graph::ValueId;

/// Some factor is in at least so many inputs, and a split of it leaves pending sums.
bool sums(const sharding::ShardingRule& rule, std::ptrdiff_t least_inputs) {
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const sharding::Factor& factor = rule.factors[f];
    if (factor.kind != sharding::FactorKind::sum || factor.size <= 1) continue;
    const auto has_factor = [f](const sharding::TensorFactors& tensor) {
      return sharding::holds(tensor, static_cast<int>(f));
    };
    if (std::ranges::count_if(rule.inputs, has_factor) >= least_inputs) return true;
  }
  return false;
}

/// Which values are kept partial, as far as it is known.
struct Flow {
  using Group = std::vector<int>;

  const graph::Graph& graph;
  const NodeRules& rules;
  const bool is_forced;  ///< kept wherever it can be
  const std::vector<std::vector<NodeId>> readers;
  std::vector<bool> sums{};        ///< by NodeId: leaves pending sums of its own
  std::vector<bool> multiplies{};  ///< by NodeId: of products
  std::vector<bool> kept;          ///< by ValueId
  /// By ValueId: the value in which the pending sum began, by a sum or by a join of two.
  std::vector<ValueId> origins;

  bool is_kept(ValueId value) const { return value != graph::no_value && kept[value]; }

  std::vector<ValueId> values_of(NodeId id, const Group& group) const {
    std::vector<ValueId> values;
    for (const int i : group) values.push_back(graph.node(id).inputs[i]);
    return values;
  }

  const std::vector<Group>& groups_of(NodeId id) const {
    static const std::vector<Group> none;
    return rules[id] ? rules[id]->linear : none;
  }

  bool can_take(NodeId id, const Group& group) const {
    if (multiplies[id] && !is_forced) return false;
    return std::ranges::all_of(values_of(id, group), [&](ValueId value) { return is_kept(value); });
  }

  bool joins(NodeId id, const Group& group) const {
    const std::vector<ValueId> values = values_of(id, group);
    const auto has_another_origin = [&](ValueId value) {
      return origins[value] != origins[values.front()];
    };
    return sums[id] || std::ranges::any_of(values, has_another_origin);
  }

  bool is_worth_taking(NodeId id, const Group& group) const {
    const auto stays = [&](ValueId value) { return value == graph::no_value || is_kept(value); };
    return is_forced || joins(id, group) || std::ranges::all_of(graph.node(id).outputs, stays);
  }

  /// Wherever the operator reads the value.
  bool reads_partial(NodeId id, ValueId value) const {
    const std::vector<ValueId>& inputs = graph.node(id).inputs;
    return std::ranges::any_of(groups_of(id), [&](const Group& group) {
      return std::ranges::count(values_of(id, group), value) == std::ranges::count(inputs, value) &&
             can_take(id, group) && is_worth_taking(id, group);
    });
  }

  bool can_be_read(ValueId value) const {
    const auto reads = [&](NodeId reader) { return reads_partial(reader, value); };
    if (is_forced) return std::ranges::any_of(readers[value], reads);
    return !readers[value].empty() && std::ranges::all_of(readers[value], reads);
  }

  bool can_be_made(NodeId id) const {
    const auto takes = [&](const Group& group) { return can_take(id, group); };
    return sums[id] || std::ranges::any_of(groups_of(id), takes);
  }
};

/// Returns whether the operator had outputs that cannot be kept.
bool drop_outputs(NodeId id, Flow& flow) {
  bool changed = false;
  for (const ValueId value : flow.graph.node(id).outputs) {
    if (!flow.is_kept(value) || (flow.can_be_read(value) && flow.can_be_made(id))) continue;
    flow.kept[value] = false;
    changed = true;
  }
  return changed;
}

void set_origins(NodeId id, Flow& flow) {
  std::set<ValueId> origins;
  for (const Flow::Group& group : flow.groups_of(id)) {
    if (!flow.can_take(id, group)) continue;
    for (const ValueId value : flow.values_of(id, group)) origins.insert(flow.origins[value]);
  }
  const bool is_carried = origins.size() == 1 && !flow.sums[id];
  for (const ValueId value : flow.graph.node(id).outputs)
    if (value != graph::no_value) flow.origins[value] = is_carried ? *origins.begin() : value;
}

/// To a set of values that allow each other, from all of them down. In both directions, since what
/// may be kept depends on producers and on readers.
void settle(Flow& flow) {
  const auto count = static_cast<NodeId>(flow.graph.nodes.size());
  bool changed = true;
  while (changed) {
    changed = false;
    for (NodeId id = 0; id < count; ++id) {
      set_origins(id, flow);
      changed |= drop_outputs(id, flow);
    }
    for (NodeId id = count; id-- > 0;) changed |= drop_outputs(id, flow);
  }
}

sharding::PartialUse use_of(const Flow& flow, NodeId id) {
  sharding::PartialUse use;
  use.reduces_later = flow.is_forced;
  for (const ValueId value : flow.graph.node(id).outputs) use.kept.push_back(flow.is_kept(value));
  const std::vector<Flow::Group>& groups = flow.groups_of(id);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!flow.can_take(id, groups[g]) || !flow.is_worth_taking(id, groups[g])) continue;
    use.groups.push_back(g);
    use.reduces_later |= flow.joins(id, groups[g]);
  }
  return use;
}

}  // namespace

NodeRules rules_of(const graph::Graph& graph) {
  NodeRules rules;
  for (const graph::Node& node : graph.nodes) rules.push_back(sharding::sharding_rule(graph, node));
  return rules;
}

std::vector<sharding::PartialUse> partial_uses(const graph::Graph& graph, const NodeRules& rules,
                                               KeepPartial keep) {
  Flow flow{.graph = graph,
            .rules = rules,
            .is_forced = keep == KeepPartial::anywhere,
            .readers = graph::consumers(graph),
            .kept = std::vector<bool>(graph.values.size(), false),
            .origins = std::vector<ValueId>(graph.values.size(), graph::no_value)};
  for (const auto& rule : rules) {
    flow.sums.push_back(rule && sums(*rule, 1));
    flow.multiplies.push_back(rule && sums(*rule, 2));
  }
  if (keep != KeepPartial::never) {
    for (const graph::Node& node : graph.nodes)
      for (const ValueId value : node.outputs)
        if (value != graph::no_value) flow.kept[value] = is_floating_point(graph.value(value).type);
    for (const ValueId value : graph.outputs) flow.kept[value] = false;
    settle(flow);
  }
  std::vector<sharding::PartialUse> uses;
  for (NodeId id = 0; id < std::ssize(graph.nodes); ++id) uses.push_back(use_of(flow, id));
  return uses;
}

}  // namespace autopar::search
