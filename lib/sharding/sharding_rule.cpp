#include "sharding/sharding_rule.h"

#include <algorithm>

#include "sharding/discovery/discovered_rules.h"
#include "sharding/rules/table.h"

namespace autopar::sharding {
namespace {

std::vector<Shape> shapes_of(const graph::Graph& graph, const std::vector<graph::ValueId>& values) {
  std::vector<Shape> shapes;
  for (const graph::ValueId id : values) {
    shapes.push_back(id == graph::no_value ? Shape{} : graph.value(id).shape);
  }
  return shapes;
}

std::vector<TensorFactors> no_factors(const std::vector<Shape>& shapes) {
  std::vector<TensorFactors> result;
  for (const Shape& shape : shapes) result.emplace_back(shape.size());
  return result;
}

/// Elements of 4 and 2 bits share a byte, and a share might begin within one.
bool packs_elements(const graph::Graph& graph, const graph::Node& node) {
  const auto is_packed = [&graph](graph::ValueId id) {
    if (id == graph::no_value) return false;
    const int bits = graph::bits_of(graph.value(id).type);
    return 0 < bits && bits < 8;
  };
  return std::ranges::any_of(node.inputs, is_packed) ||
         std::ranges::any_of(node.outputs, is_packed);
}

/// Sums may be kept and rounded later in floating point alone, and never in a coarser type.
bool keeps_sums(graph::DataType from, graph::DataType to) {
  return graph::is_floating_point(from) && graph::is_floating_point(to) &&
         (from == to || graph::bits_of(from) < graph::bits_of(to));
}

/// The entry's groups without inputs that are left out, and without groups whose types forbid it.
std::vector<std::vector<int>> linear_groups(const RuleEntry& entry, const rules::Operator& op) {
  std::vector<std::vector<int>> groups;
  if (entry.linear == nullptr) return groups;
  const auto type = [&op](graph::ValueId id) { return op.graph.value(id).type; };
  for (std::vector<int> group : entry.linear(op)) {
    std::erase_if(group, [&](int i) { return !op.has_input(i); });
    const bool is_allowed = std::ranges::all_of(group, [&](int i) {
      return std::ranges::all_of(op.node.outputs, [&](graph::ValueId output) {
        return output == graph::no_value || keeps_sums(type(op.node.inputs[i]), type(output));
      });
    });
    if (is_allowed && !group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

std::optional<Reduce> reduce_of(FactorKind kind) {
  constexpr std::pair<FactorKind, Reduce> reductions[] = {{FactorKind::sum, Reduce::sum},
                                                          {FactorKind::max, Reduce::max},
                                                          {FactorKind::min, Reduce::min},
                                                          {FactorKind::mean, Reduce::mean}};
  const auto found = std::ranges::find(reductions, kind, &std::pair<FactorKind, Reduce>::first);
  return found == std::end(reductions) ? std::nullopt : std::optional(found->second);
}

bool holds(const TensorFactors& tensor, int factor) {
  return std::ranges::any_of(tensor, [factor](const std::vector<int>& factors) {
    return std::ranges::find(factors, factor) != factors.end();
  });
}

Range LocalNode::share(char letter) const {
  require(rule.placed.find(letter) != std::string::npos, "a rule says which factors are placed");
  return range_of(letter);
}

const Range& LocalNode::range_of(char letter) const {
  const auto found = std::ranges::find(rule.factors, letter, &Factor::letter);
  require(found != rule.factors.end(), "a rule has the factor that it is asked for");
  return factor_ranges[found - rule.factors.begin()];
}

void append_local(LocalNode local) {
  if (local.rule.localize) local.rule.localize(local);
  local.shard.nodes.push_back(std::move(local.node));
}

std::optional<ShardingRule> sharding_rule(const graph::Graph& graph, const graph::Node& node) {
  const RuleEntry* entry = find_rule(node.domain, node.op_type);
  if (entry == nullptr) return discovered_rule(graph, node);
  if (packs_elements(graph, node)) return replicated_rule(graph, node);
  const rules::Operator op{graph, node};
  ShardingRule rule = entry->rule(op);
  rule.linear = linear_groups(*entry, op);
  return rule;
}

ShardingRule rule_or_replicated(const graph::Graph& graph, const graph::Node& node) {
  std::optional<ShardingRule> rule = sharding_rule(graph, node);
  return rule ? std::move(*rule) : replicated_rule(graph, node);
}

ShardingRule replicated_rule(const graph::Graph& graph, const graph::Node& node) {
  ShardingRule rule;
  rule.inputs = no_factors(input_shapes(graph, node));
  rule.outputs = no_factors(output_shapes(graph, node));
  return rule;
}

std::vector<Shape> input_shapes(const graph::Graph& graph, const graph::Node& node) {
  return shapes_of(graph, node.inputs);
}

std::vector<Shape> output_shapes(const graph::Graph& graph, const graph::Node& node) {
  return shapes_of(graph, node.outputs);
}

}  // namespace autopar::sharding
