#include "plan/operator_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <type_traits>

namespace autopar::plan {

namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using sharding::TensorShardSpec;

constexpr double major_share_of_run = 0.1;
constexpr std::int64_t smallest_matrix_bytes = 1024;

/// A name taken apart into numbers and what is around them, one word more than numbers.
struct Parts {
  std::vector<std::string> words{""};
  std::vector<std::string> numbers;

  /// "_17" at the end of a word.
  bool is_order_of_export(std::size_t number) const {
    const std::string& before = words[number];
    const std::string& after = words[number + 1];
    const bool ends_word = after.starts_with('_') || after.starts_with('/') ||
                           (after.empty() && number + 1 == numbers.size());
    return ends_word && before.ends_with('_');
  }
};

Parts parts_of(std::string_view name) {
  Parts parts;
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t end = std::min(name.find_first_not_of("0123456789", i), name.size());
    if (end == i) {
      parts.words.back() += name[i++];
    } else {
      parts.numbers.emplace_back(name.substr(i, end - i));
      parts.words.emplace_back();
      i = end;
    }
  }
  return parts;
}

std::string attribute_text(const graph::Attribute& attribute) {
  const auto text = []<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, graph::Tensor>) {
      return fmt::format("tensor of {} bytes", value.size_bytes());
    } else {
      return fmt::format("{}", value);
    }
  };
  return std::visit(text, attribute);
}

/// A plan, and what makes and reads each value.
struct PlannedGraph {
  const Graph& graph;
  const cost::CostModel& cost;
  const Plan& plan;
  std::vector<NodeId> producers;
  std::vector<std::vector<NodeId>> readers;

  /// Plan::spec_of without its search for the producer.
  const TensorShardSpec& lies_as(ValueId value) const {
    const NodeId producer = producers[value];
    if (producer == graph::no_node) return plan.stored.at(value);
    const auto& outputs = graph.node(producer).outputs;
    return plan.operators[producer].outputs[std::ranges::find(outputs, value) - outputs.begin()];
  }

  std::string source_of(ValueId value) const {
    if (graph.is_constant(value)) return "constant";
    const NodeId producer = producers[value];
    return producer == graph::no_node ? "input" : qualified_op_type(graph.node(producer));
  }
};

/// What operators of one group have in common, as text.
std::string key_of(NodeId id, const PlannedGraph& planned) {
  const Graph& graph = planned.graph;
  const Node& node = graph.node(id);
  std::string key = fmt::format("{} {} {}\n", qualified_op_type(node), name_pattern(node.name),
                                to_string(planned.plan.operators[id]));
  for (const auto& [name, attribute] : node.attributes)
    key += fmt::format("{}={} ", name, attribute_text(attribute));
  if (node.body) key += node.name;
  for (const ValueId input : node.inputs) {
    if (input == graph::no_value) {
      key += "\nnone";
      continue;
    }
    const graph::Value& value = graph.value(input);
    key += fmt::format("\n{} {} {} {}", name_of(value.type), fmt::join(value.shape, "x"),
                       planned.source_of(input), to_string(planned.lies_as(input)));
  }
  for (const ValueId output : node.outputs) {
    if (output == graph::no_value) continue;
    std::multiset<std::string> types;
    for (const NodeId reader : planned.readers[output])
      types.insert(qualified_op_type(graph.node(reader)));
    key += fmt::format("\n{}:{}", fmt::join(graph.value(output).shape, "x"), fmt::join(types, " "));
  }
  return key;
}

bool is_matrix(ValueId id, const Graph& graph) {
  if (!graph.is_constant(id)) return false;
  const graph::Value& value = graph.value(id);
  // Masks and tables of positions have dimensions of 1, to be broadcast.
  const bool is_full = std::ranges::all_of(value.shape, [](auto n) { return n > 1; });
  return is_full && value.shape.size() >= 2 &&
         value.constant->size_bytes() >= smallest_matrix_bytes;
}

/// The largest one that the operator reads, or none.
ValueId weight_matrix(const Node& node, const Graph& graph) {
  ValueId largest = graph::no_value;
  const auto bytes = [&](ValueId id) { return graph.value(id).constant->size_bytes(); };
  for (const ValueId input : node.inputs) {
    if (!is_matrix(input, graph)) continue;
    if (largest == graph::no_value || bytes(input) > bytes(largest)) largest = input;
  }
  return largest;
}

/// A group of its first member, which is yet to be added.
OperatorGroup group_of(NodeId id, const PlannedGraph& planned) {
  const Node& node = planned.graph.node(id);
  const sharding::OpShardSpec& strategy = planned.plan.operators[id];
  const auto rule = sharding::rule_or_replicated(planned.graph, node);
  OperatorGroup group;
  for (const ValueId input : node.inputs)
    group.inputs_as.push_back(input == graph::no_value ? TensorShardSpec{}
                                                       : planned.lies_as(input));
  group.seconds = planned.cost.operator_seconds(planned.graph, node, rule, strategy) +
                  planned.cost.reduction_seconds(planned.graph, node, rule, strategy);
  group.is_major = cost::is_contraction(rule) ||
                   weight_matrix(node, planned.graph) != graph::no_value ||
                   std::ranges::any_of(strategy.reductions, [](auto reduction) {
                     return reduction != sharding::ReduceFunction::none;
                   });
  return group;
}

/// Tells what follows from all members.
void finish(OperatorGroup& group, const PlannedGraph& planned) {
  std::vector<std::string> names;
  std::vector<std::string> weights;
  for (const NodeId member : group.members) {
    const Node& node = planned.graph.node(member);
    names.push_back(node.name);
    const ValueId weight = weight_matrix(node, planned.graph);
    if (weight != graph::no_value) weights.push_back(planned.graph.value(weight).name);
  }
  group.name = common_name(names);
  if (!weights.empty()) group.weight = common_name(weights);
  const double share = group.seconds * static_cast<double>(group.members.size());
  group.is_major |= share >= major_share_of_run * planned.plan.predicted.cost_seconds;
}

}  // namespace

std::string name_pattern(std::string_view name) {
  const Parts parts = parts_of(name);
  std::string pattern;
  for (std::size_t i = 0; i < parts.numbers.size(); ++i) {
    pattern += parts.words[i];
    if (parts.is_order_of_export(i)) {
      pattern.pop_back();
    } else {
      pattern += '*';
    }
  }
  return pattern + parts.words.back();
}

std::string common_name(std::span<const std::string> names) {
  const Parts first = parts_of(names.front());
  std::vector<bool> differs(first.numbers.size(), false);
  for (const std::string& name : names) {
    const Parts parts = parts_of(name);
    if (parts.words != first.words) return names.front();
    for (std::size_t i = 0; i < differs.size(); ++i) {
      if (parts.numbers[i] != first.numbers[i]) differs[i] = !first.is_order_of_export(i);
    }
  }
  std::string common;
  for (std::size_t i = 0; i < differs.size(); ++i) {
    common += first.words[i];
    common += differs[i] ? "*" : first.numbers[i];
  }
  return common + first.words.back();
}

std::vector<OperatorGroup> group_operators(const Graph& graph, const cost::CostModel& cost,
                                           const Plan& plan) {
  const PlannedGraph planned{graph, cost, plan, graph::producers(graph), graph::consumers(graph)};
  std::vector<OperatorGroup> groups;
  std::map<std::string, std::size_t> known;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    const auto [entry, is_new] = known.try_emplace(key_of(id, planned), groups.size());
    if (is_new) groups.push_back(group_of(id, planned));
    groups[entry->second].members.push_back(id);
  }
  for (OperatorGroup& group : groups) finish(group, planned);
  return groups;
}

}  // namespace autopar::plan
