#include "search/operator_strategies.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/arena.h"
#include "plan/plan.h"
#include "sharding/decomposition.h"

namespace autopar::search {

namespace {

using sharding::ShardingRule;

/// Sums of costs stay inside 64 bits.
constexpr double most_seconds = 1e4;

void append(std::string& key, std::int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append(std::string& key, const std::vector<std::vector<std::vector<int>>>& tensors) {
  for (const auto& tensor : tensors) {
    for (const auto& dimension : tensor) {
      for (const int factor : dimension) append(key, factor);
      append(key, -1);
    }
    append(key, -2);
  }
}

void append_strategy(std::string& key, const sharding::OpShardSpec& strategy) {
  append(key, {strategy.factor_axes});
  for (const auto* tensors : {&strategy.inputs, &strategy.computed, &strategy.outputs})
    for (const sharding::TensorShardSpec& tensor : *tensors)
      append(key, {tensor.dims, {tensor.partial}});
}

/// All that strategies and their prices depend on, as bytes.
std::string key_of(const graph::Graph& graph, const graph::Node& node, const ShardingRule& rule,
                   const sharding::PartialUse& partial) {
  std::string key;
  for (const sharding::Factor& factor : rule.factors) {
    append(key, factor.size);
    append(key, static_cast<int>(factor.kind) * 4 + factor.even * 2 + factor.never_empty);
  }
  append(key, rule.inputs);
  append(key, rule.outputs);
  for (const std::size_t group : partial.groups) append(key, {{rule.linear[group]}});
  append(key, partial.reduces_later);
  for (const bool kept : partial.kept) append(key, kept);
  append(key, rule.is_view);
  append(key, rule.lookup_input);
  if (rule.decompose) {  // by which others depends on these
    key += node.op_type;
    for (const auto& [name, value] : node.attributes) {
      if (const auto* number = std::get_if<std::int64_t>(&value)) append(key += name, *number);
    }
  }
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (const graph::ValueId id : *values) {
      if (id != graph::no_value) {
        append(key, static_cast<int>(graph.value(id).type));
        for (const std::int64_t extent : graph.value(id).shape) append(key, extent);
      }
      append(key, -1);
    }
    append(key, -2);
  }
  return key;
}

/// Arena bytes of the values between the parts of a decomposed operator, beyond what its outputs
/// take.
std::int64_t bytes_between(const sharding::Decomposition& parts, const cost::CostModel& cost) {
  const graph::Graph& graph = parts.graph;
  std::map<graph::ValueId, std::int64_t> alive;
  std::int64_t most = 0;
  const auto readers = graph::consumers(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    const sharding::OpShardSpec& strategy = parts.strategies[n];
    std::int64_t now = 0;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const graph::Value& value = graph.value(node.outputs[o]);
      alive[node.outputs[o]] = arena_bytes(value, strategy.outputs[o], cost);
      if (strategy.reductions[o] != sharding::ReduceFunction::none)
        now += arena_bytes(value, strategy.computed[o], cost);
    }
    for (const auto& [value, bytes] : alive) now += bytes;
    most = std::max(most, now);
    std::erase_if(alive, [&](const auto& entry) {
      const auto& nodes = readers[entry.first];
      return !nodes.empty() && nodes.back() <= static_cast<graph::NodeId>(n);
    });
  }
  std::int64_t outputs = 0;
  for (const auto& [value, bytes] : alive) outputs += bytes;
  return std::max<std::int64_t>(0, most - outputs);
}

/// Merges strategies with the same canonical inputs and outputs into one, which takes the least
/// seconds and the least bytes of any.
OperatorStrategies relaxed(OperatorStrategies all, const sharding::SymmetricAxes& symmetric) {
  using Specs = std::vector<sharding::TensorShardSpec>;
  OperatorStrategies merged{.choices = {}, .costs = {}, .output_bytes = {}, .inner_bytes = {}};
  merged.has_rule = all.has_rule;
  std::map<std::pair<Specs, Specs>, std::size_t> places;
  for (std::size_t k = 0; k < all.choices.size(); ++k) {
    sharding::OpShardSpec form = canonical(std::move(all.choices[k]), symmetric);
    const std::size_t place =
        places.try_emplace({form.inputs, form.outputs}, places.size()).first->second;
    const bool is_new = place == merged.choices.size();
    const auto take = [&](auto& into, const auto& from) {
      if (is_new)
        into.push_back(from[k]);
      else
        into[place] = std::min(into[place], from[k]);
    };
    if (is_new) merged.choices.push_back(std::move(form));
    take(merged.costs, all.costs);
    take(merged.output_bytes, all.output_bytes);
    take(merged.inner_bytes, all.inner_bytes);
  }
  return merged;
}

}  // namespace

assignment::Cost picoseconds(double seconds, std::string_view of) {
  if (!(seconds <= most_seconds)) {
    fail(
        "{} is predicted to take {:.3g} s: the rates of the device, or the shapes, are not "
        "plausible",
        of, seconds);
  }
  return std::llround(seconds / seconds_per_cost);
}

std::int64_t arena_bytes(const graph::Value& value, const sharding::TensorShardSpec& spec,
                         const cost::CostModel& cost) {
  const graph::Shape local = sharding::largest_local_shape(spec, value.shape, cost.mesh());
  const std::int64_t bytes = bytes_of(value.type, graph::num_elements(local));
  const bool is_exact = cost.device().without_memory != nullptr;
  return is_exact ? graph::aligned(bytes) : graph::with_arena_slack(bytes);
}

StrategyTable::StrategyTable(const graph::Graph& graph, const cost::CostModel& cost,
                             const Pins& pins, KeepPartial keep, double weight,
                             const Neighbourhood& near, const Symmetry& symmetry,
                             SharedPrices prices)
    : graph_(graph),
      cost_(cost),
      prices_(prices_or_own(std::move(prices), cost)),
      pins_(pins),
      weight_(weight),
      near_(near),
      symmetry_(symmetry),
      rules_(rules_of(graph)),
      partial_uses_(
          partial_uses(graph, rules_, pins.name_partial_values() ? KeepPartial::anywhere : keep)) {}

void StrategyTable::drop_without_collectives(const graph::Node& node, const ShardingRule& rule,
                                             std::vector<sharding::OpShardSpec>& choices) {
  const cost::CollectiveSet* only = cost_.device().collectives.get();
  if (only == nullptr) return;
  std::erase_if(choices, [&](const sharding::OpShardSpec& choice) {
    return std::isinf(prices_->reduction_seconds(graph_, node, rule, choice));
  });
  if (choices.empty())
    fail(
        "operator '{}': all that --strategy leaves of it takes collectives that --shards {} does "
        "not have; pin it otherwise, or give another flavour",
        node.name, only->name);
}

std::vector<sharding::OpShardSpec> StrategyTable::choices_of(graph::NodeId id,
                                                             const ShardingRule& rule) const {
  const graph::Node& node = graph_.node(id);
  const sharding::PartialUse& partial = partial_uses_[id];
  if (symmetry_.chosen != nullptr)
    return sharding::op_shard_specs_like(graph_, node, rule, cost_.mesh(), partial,
                                         symmetry_.chosen->operators[id], symmetry_.axes);
  if (near_.plan != nullptr) {
    auto near = sharding::op_shard_specs_near(graph_, node, rule, cost_.mesh(), partial,
                                              near_.plan->operators[id], near_.free_axes);
    if (!near.empty()) return near;
  }
  return sharding::enumerate_op_shard_specs(graph_, node, rule, cost_.mesh(), partial,
                                            symmetry_.axes);
}

std::shared_ptr<const OperatorStrategies> StrategyTable::of(graph::NodeId id) {
  const graph::Node& node = graph_.node(id);
  const bool has_rule = rules_[id].has_value();
  const ShardingRule rule = has_rule ? *rules_[id] : sharding::replicated_rule(graph_, node);
  const sharding::PartialUse& partial = partial_uses_[id];
  std::string key = key_of(graph_, node, rule, partial);
  append(key, has_rule);
  key += cost_.price_key(graph_, node);
  append(key, -3);
  if (pins_.is_pinned(node.name)) key += node.name;
  if (near_.plan != nullptr) append_strategy(key, near_.plan->operators[id]);
  if (symmetry_.chosen != nullptr) append_strategy(key, symmetry_.chosen->operators[id]);
  auto& made = made_[key];
  if (made) return made;
  prices_->check_limit();

  OperatorStrategies strategies;
  strategies.has_rule = has_rule;
  strategies.choices = pins_.allowed(node.name, choices_of(id, rule));
  drop_without_collectives(node, rule, strategies.choices);
  for (const sharding::OpShardSpec& choice : strategies.choices) {
    const double seconds = cost_.operator_seconds(graph_, node, rule, choice) +
                           prices_->reduction_seconds(graph_, node, rule, choice);
    strategies.costs.push_back(picoseconds(weight_ * seconds, node.name));
    std::int64_t& outputs = strategies.output_bytes.emplace_back(0);
    std::int64_t& inner = strategies.inner_bytes.emplace_back(0);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == graph::no_value) continue;
      const graph::Value& value = graph_.value(node.outputs[i]);
      const bool is_reduced = choice.reductions[i] != sharding::ReduceFunction::none;
      if (is_reduced || cost_.takes_memory(value))
        outputs += arena_bytes(value, choice.outputs[i], cost_);
      if (is_reduced) inner += arena_bytes(value, choice.computed[i], cost_);
    }
    if (sharding::splits_normalized(rule, choice.factor_axes)) {
      inner += bytes_between(sharding::decompose(graph_, node, rule, choice, cost_.mesh()), cost_);
    }
  }
  if (symmetry_.is_relaxed()) strategies = relaxed(std::move(strategies), symmetry_.axes);
  made = std::make_shared<const OperatorStrategies>(std::move(strategies));
  return made;
}

}  // namespace autopar::search
