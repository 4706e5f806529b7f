#include "plan/operator_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <type_traits>

namespace autopar::plan {

namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using sharding::OpShardSpec;
using sharding::TensorShardSpec;

constexpr double major_share_of_run = 0.1;
constexpr std::int64_t smallest_matrix_bytes = 1024;

/// The end of the digits that begin at `i`; `i` itself where none do.
std::size_t end_of_number(std::string_view name, std::size_t i) {
  while (i < name.size() && std::isdigit(static_cast<unsigned char>(name[i])) != 0) ++i;
  return i;
}

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
    const std::size_t end = end_of_number(name, i);
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

class Grouping {
 public:
  Grouping(const Graph& graph, const cost::CostModel& cost, const Plan& plan)
      : graph_(graph),
        cost_(cost),
        plan_(plan),
        producers_(graph::producers(graph)),
        readers_(graph::consumers(graph)) {}

  std::vector<OperatorGroup> run() && {
    std::map<std::string, std::size_t> known;
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const auto node = static_cast<NodeId>(id);
      const auto [entry, is_new] = known.try_emplace(key_of(node), groups_.size());
      if (is_new) groups_.push_back(first_of(node));
      groups_[entry->second].members.push_back(node);
    }
    for (OperatorGroup& group : groups_) {
      std::vector<std::string> names;
      std::vector<std::string> weights;
      for (const NodeId member : group.members) {
        names.push_back(graph_.node(member).name);
        const ValueId weight = weight_matrix(graph_.node(member));
        if (weight != graph::no_value) weights.push_back(graph_.value(weight).name);
      }
      group.name = common_name(names);
      if (!weights.empty()) group.weight = common_name(weights);
      const double share = group.seconds * static_cast<double>(group.members.size());
      group.is_major |= share >= major_share_of_run * plan_.predicted.cost_seconds;
    }
    return std::move(groups_);
  }

 private:
  const OpShardSpec& strategy_of(NodeId id) const { return plan_.operators[id]; }

  std::string key_of(NodeId id) const {
    const Node& node = graph_.node(id);
    std::string key = fmt::format("{} {} {}\n", qualified_op_type(node), name_pattern(node.name),
                                  to_string(strategy_of(id)));
    for (const auto& [name, attribute] : node.attributes) {
      key += fmt::format("{}={} ", name, attribute_text(attribute));
    }
    if (node.body) key += node.name;
    for (const ValueId input : node.inputs) {
      if (input == graph::no_value) {
        key += "\nnone";
        continue;
      }
      const graph::Value& value = graph_.value(input);
      key += fmt::format("\n{} {} {} {}", name_of(value.type), fmt::join(value.shape, "x"),
                         source_of(input), to_string(lies_as(input)));
    }
    for (const ValueId output : node.outputs) {
      if (output == graph::no_value) continue;
      key += fmt::format("\n{}:", fmt::join(graph_.value(output).shape, "x"));
      std::multiset<std::string> types;
      for (const NodeId reader : readers_[output]) {
        types.insert(qualified_op_type(graph_.node(reader)));
      }
      key += fmt::format("{}", fmt::join(types, " "));
    }
    return key;
  }

  std::string source_of(ValueId value) const {
    if (graph_.is_constant(value)) return "constant";
    const NodeId producer = producers_[value];
    return producer == graph::no_node ? "input" : qualified_op_type(graph_.node(producer));
  }

  /// Plan::spec_of without its search for the producer.
  const TensorShardSpec& lies_as(ValueId value) const {
    const NodeId producer = producers_[value];
    if (producer == graph::no_node) return plan_.stored.at(value);
    const auto& outputs = graph_.node(producer).outputs;
    const auto place = std::ranges::find(outputs, value) - outputs.begin();
    return strategy_of(producer).outputs[place];
  }

  OperatorGroup first_of(NodeId id) const {
    const Node& node = graph_.node(id);
    const OpShardSpec& strategy = strategy_of(id);
    const auto rule = sharding::rule_or_replicated(graph_, node);
    OperatorGroup group;
    for (const ValueId input : node.inputs) {
      group.inputs_as.push_back(input == graph::no_value ? TensorShardSpec{} : lies_as(input));
    }
    group.seconds = cost_.operator_seconds(graph_, node, rule, strategy) +
                    cost_.reduction_seconds(graph_, node, rule, strategy);
    group.is_major = cost::is_contraction(rule) || weight_matrix(node) != graph::no_value ||
                     std::ranges::any_of(strategy.reductions, [](auto reduction) {
                       return reduction != sharding::ReduceFunction::none;
                     });
    return group;
  }

  /// The largest one that the operator reads, or none.
  ValueId weight_matrix(const Node& node) const {
    ValueId largest = graph::no_value;
    const auto bytes = [&](ValueId id) { return graph_.value(id).constant->size_bytes(); };
    for (const ValueId input : node.inputs) {
      if (!is_matrix(input)) continue;
      if (largest == graph::no_value || bytes(input) > bytes(largest)) largest = input;
    }
    return largest;
  }

  bool is_matrix(ValueId id) const {
    if (!graph_.is_constant(id)) return false;
    const graph::Value& value = graph_.value(id);
    // Masks and tables of positions have dimensions of 1, to be broadcast.
    const bool is_full = std::ranges::all_of(value.shape, [](auto n) { return n > 1; });
    return is_full && value.shape.size() >= 2 &&
           value.constant->size_bytes() >= smallest_matrix_bytes;
  }

  const Graph& graph_;
  const cost::CostModel& cost_;
  const Plan& plan_;
  const std::vector<NodeId> producers_;
  const std::vector<std::vector<NodeId>> readers_;
  std::vector<OperatorGroup> groups_;
};

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
  return Grouping(graph, cost, plan).run();
}

}  // namespace autopar::plan
