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

std::vector<std::vector<std::vector<int>>> no_factors(const std::vector<Shape>& shapes) {
  std::vector<std::vector<std::vector<int>>> result;
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
std::vector<std::vector<int>> linear_groups(const RuleEntry& entry, const graph::Graph& graph,
                                            const graph::Node& node) {
  std::vector<std::vector<int>> groups;
  if (entry.linear == nullptr) return groups;
  const auto input = [&node](int i) { return node.inputs[static_cast<std::size_t>(i)]; };
  for (std::vector<int> group : entry.linear(graph, node)) {
    std::erase_if(group, [&](int i) { return input(i) == graph::no_value; });
    const bool is_allowed = std::ranges::all_of(group, [&](int i) {
      return std::ranges::all_of(node.outputs, [&](graph::ValueId output) {
        return output == graph::no_value ||
               keeps_sums(graph.value(input(i)).type, graph.value(output).type);
      });
    });
    if (is_allowed && !group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

std::optional<ShardingRule> sharding_rule(const graph::Graph& graph, const graph::Node& node) {
  const RuleEntry* entry = find_rule(node.domain, node.op_type);
  if (entry == nullptr) return discovered_rule(graph, node);
  if (packs_elements(graph, node)) return replicated_rule(graph, node);
  ShardingRule rule = entry->rule(graph, node);
  rule.linear = linear_groups(*entry, graph, node);
  return rule;
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
