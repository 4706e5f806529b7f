#include "sharding/discovery/discovered_rules.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "sharding/discovery/discovery.h"
#include "sharding/discovery/smaller_instance.h"
#include "sharding/rules/table.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::ValueId;

/// An operator runs some hundred times. One on more elements runs on smaller tensors, of no more
/// than the first of these where they can be made.
constexpr std::int64_t most_elements = std::int64_t{1} << 22;
constexpr std::int64_t most_elements_if_smaller = std::int64_t{1} << 18;
/// Constants of so few integers may be shapes, axes and the like.
constexpr std::int64_t most_integers = 64;

bool is_small_integer(const graph::Value& value) {
  return !graph::is_floating_point(value.type) && graph::num_elements(value.shape) <= most_integers;
}

std::string text_of(const graph::Attribute& attribute) {
  const auto text = []<typename T>(const T& value) {
    if constexpr (std::is_same_v<T, Tensor>) {
      const Tensor tensor = value.contiguous_copy();
      std::string result = graph::to_string(tensor.shape());
      for (const std::byte byte : tensor.bytes()) result += fmt::format("{:02x}", int(byte));
      return result;
    } else {
      return fmt::format("{}", value);
    }
  };
  return std::visit(text, attribute);
}

/// All that a rule may depend on, as text.
std::string key_of(const Graph& graph, const Node& node) {
  const auto opset = graph.opsets.find(node.domain);
  std::string key = fmt::format("{}@{}", graph::qualified_op_type(node),
                                opset == graph.opsets.end() ? 0 : opset->second);
  for (const auto& [name, value] : node.attributes)
    key += fmt::format(" {}={}", name, text_of(value));
  for (const auto* values : {&node.inputs, &node.outputs}) {
    key += " |";
    for (const ValueId id : *values) {
      if (id == graph::no_value) {
        key += " -";
        continue;
      }
      const graph::Value& value = graph.value(id);
      key += fmt::format(" {}:{}", graph::name_of(value.type), graph::to_string(value.shape));
      if (value.constant && value.constant->has_data() && is_small_integer(value))
        key += fmt::format("{}", value.constant->to_int64s());
    }
  }
  return key;
}

std::map<std::string, ShardingRule>& known_rules() {
  static std::map<std::string, ShardingRule> rules;
  return rules;
}

/// The node alone, and what its inputs are in the model where that is known.
struct Instance {
  Graph graph;
  std::vector<std::optional<Tensor>> own;  ///< by graph.inputs
};

Instance instance_of(const Graph& graph, const Node& node) {
  Instance instance;
  instance.graph.name = graph.name;
  instance.graph.opsets = graph.opsets;
  Node alone = node;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == graph::no_value) continue;
    graph::Value value = graph.value(node.inputs[i]);
    value.name = fmt::format("in{}", i);
    const bool has_data = value.constant && value.constant->has_data();
    const bool stays = has_data && is_small_integer(value);
    std::optional<Tensor> own;
    if (has_data) own = value.constant->contiguous_copy();
    value.constant = stays ? own : std::nullopt;
    alone.inputs[i] = instance.graph.add_value(std::move(value));
    if (stays) continue;
    instance.graph.inputs.push_back(alone.inputs[i]);
    instance.own.push_back(std::move(own));
  }
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    if (node.outputs[o] == graph::no_value) continue;
    graph::Value value = graph.value(node.outputs[o]);
    value.name = fmt::format("out{}", o);
    alone.outputs[o] = instance.graph.add_value(std::move(value));
    instance.graph.outputs.push_back(alone.outputs[o]);
  }
  instance.graph.nodes.push_back(std::move(alone));
  return instance;
}

bool tells_much(const OperatorRun& run) {
  return std::ranges::all_of(run.outputs, [](const Numbers& output) {
    const auto finite =
        std::ranges::count_if(output.values, [](double value) { return std::isfinite(value); });
    return 2 * finite >= static_cast<std::ptrdiff_t>(output.values.size());
  });
}

/// Runs on positive numbers, on numbers of either sign, and on what the model has.
std::vector<OperatorRun> runs_of(const Graph& graph, const std::vector<std::optional<Tensor>>& own,
                                 const ShardRunner& runner) {
  std::mt19937 random(23);
  std::vector<OperatorRun> runs;
  for (const auto& [low, with_own] :
       {std::pair(0.25, false), std::pair(-2.0, false), std::pair(-2.0, true)}) {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const graph::Value& value = graph.value(graph.inputs[i]);
      const bool is_float = graph::is_floating_point(value.type);
      inputs.push_back(with_own && own[i] && own[i]->shape() == value.shape
                           ? *own[i]
                           : runner.random(value.type, value.shape, is_float ? low : 0, 2, random));
    }
    auto run = run_whole(graph, std::move(inputs), runner);
    if (!run) return {};
    if (tells_much(*run)) runs.push_back(std::move(*run));
  }
  return runs;
}

/// Why the operator is not to be run on other inputs than its own; empty where it may be.
std::string objection(const Graph& graph, const Node& node) {
  static const std::set<std::string_view> random_operators{
      "Bernoulli",        "Dropout",       "Multinomial",      "RandomNormal",
      "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  if (random_operators.contains(node.op_type)) return "it draws random numbers";
  if (node.body) return "it is a loop that only the run ends";
  const auto has_part_of_byte = [&](ValueId id) {
    return id != graph::no_value && graph::bits_of(graph.value(id).type) < 8;
  };
  const auto may_name_dimensions = [&](ValueId id) {
    if (id == graph::no_value) return false;
    const graph::Value& value = graph.value(id);
    const bool is_known = value.constant && value.constant->has_data();
    return !is_known && value.shape.size() < 2 && is_small_integer(value);
  };
  if (std::ranges::any_of(node.inputs, has_part_of_byte) ||
      std::ranges::any_of(node.outputs, has_part_of_byte))
    return "elements of less than 8 bits share a byte";
  if (std::ranges::any_of(node.inputs, may_name_dimensions))
    return "it reads integers that are known only at run time and may name dimensions";
  return {};
}

/// As it is where it is small enough; nullopt where it cannot be made so.
std::optional<Graph> instance_to_run(const Graph& graph) {
  if (elements_of_node(graph) > most_elements)
    if (auto smaller = smaller_instance(graph, most_elements_if_smaller)) return smaller;
  return smaller_instance(graph, most_elements);
}

/// Loops that split one at a time may not do so together.
bool is_proven(const ShardingRule& rule, const OperatorRun& run, const ShardRunner& runner) {
  for (const DeviceMesh& mesh : {DeviceMesh({2}), DeviceMesh({3}), DeviceMesh({2, 2})})
    for (const OpShardSpec& choice : all_choices(rule, run, mesh))
      if (!disproof(rule, choice, mesh, run, runner).empty()) return false;
  return true;
}

bool splits_something(const ShardingRule& rule) {
  return std::ranges::any_of(rule.factors,
                             [](const Factor& factor) { return factor.kind != FactorKind::whole; });
}

}  // namespace

std::optional<ShardingRule> discover_rule(const Graph& graph, const Node& node,
                                          const graph::Evaluator& evaluate, std::string& why_not) {
  const auto refuse = [&why_not](const char* why) {
    why_not = why;
    return std::nullopt;
  };
  why_not = objection(graph, node);
  if (!why_not.empty()) return std::nullopt;
  const Instance instance = instance_of(graph, node);
  const auto to_run = instance_to_run(instance.graph);
  if (!to_run) return refuse("its tensors are too large to run it often");
  const ShardRunner runner(evaluate);
  const std::vector<OperatorRun> runs = runs_of(*to_run, instance.own, runner);
  if (runs.empty()) return refuse("it does not run on random numbers");
  const Discovery found = discover(runs, runner);
  const ShardingRule rule = rule_of(found, *to_run, to_run->nodes.front());
  if (!is_proven(rule, runs.front(), runner))
    return refuse("what splits alone does not split together");
  if (!splits_something(rule)) return refuse("no dimension splits");
  return rule_of(enlarged(found, *to_run, instance.graph), instance.graph,
                 instance.graph.nodes.front());
}

std::vector<std::string> discover_rules(const Graph& graph, const graph::Evaluator& evaluate,
                                        const std::function<bool(const Node&)>& wanted) {
  std::map<std::string, std::string> without;  // by operator type
  std::set<std::string> tried;
  for (const Node& node : graph.nodes) {
    if (find_rule(node.domain, node.op_type) != nullptr) continue;
    if (node.domain == graph::collective_domain || !wanted(node)) continue;
    const std::string key = key_of(graph, node);
    if (!tried.insert(key).second || known_rules().contains(key)) continue;
    std::string why_not;
    if (auto rule = discover_rule(graph, node, evaluate, why_not)) {
      known_rules().emplace(key, std::move(*rule));
    } else {
      without.emplace(graph::qualified_op_type(node), why_not);
    }
  }
  std::vector<std::string> reasons;
  for (const auto& [op_type, why_not] : without) reasons.push_back(op_type + ": " + why_not);
  return reasons;
}

std::optional<ShardingRule> discovered_rule(const Graph& graph, const Node& node) {
  if (known_rules().empty()) return std::nullopt;
  const auto found = known_rules().find(key_of(graph, node));
  if (found == known_rules().end()) return std::nullopt;
  return found->second;
}

}  // namespace autopar::sharding
