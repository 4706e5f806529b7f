#include "search/similar_plan.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "search/operator_strategies.h"
#include "sharding/connect.h"

namespace autopar::search {

namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using sharding::OpShardSpec;
using sharding::TensorShardSpec;

/// The entries of a plan by what they are for: an operator and a tensor may have one name.
struct Entries {
  std::unordered_map<std::string_view, const Pin*> operators;
  std::unordered_map<std::string_view, const Pin*> stored;
};

Entries by_name(const std::vector<Pin>& entries) {
  Entries named;
  for (const Pin& entry : entries)
    (entry.inputs ? named.operators : named.stored).emplace(entry.name, &entry);
  return named;
}

bool has_partial(const std::vector<TensorShardSpec>& specs) {
  return std::ranges::any_of(specs, &TensorShardSpec::is_partial);
}

bool name_partial_values(const std::vector<Pin>& entries) {
  return std::ranges::any_of(entries, [](const Pin& entry) {
    return (entry.inputs && has_partial(*entry.inputs)) ||
           (entry.outputs && has_partial(*entry.outputs));
  });
}

bool is_strategy(const Pin& entry, const OpShardSpec& choice) {
  return *entry.inputs == choice.inputs && *entry.outputs == choice.outputs &&
         *entry.reductions == choice.reductions;
}

/// A plan in the making: what is decided so far.
class SimilarPlan {
 public:
  SimilarPlan(const Graph& graph, const std::vector<Pin>& other, const cost::CostModel& cost)
      : graph_(graph),
        cost_(cost),
        entries_(by_name(other)),
        no_pins_(none_, graph),
        table_(graph, cost, no_pins_,
               name_partial_values(other) ? KeepPartial::anywhere : KeepPartial::never) {}

  plan::Plan make() {
    place_stored();
    require_states();
    plan::Plan plan;
    plan.mesh = cost_.mesh();
    plan.stored = {specs_.begin(), specs_.end()};
    plan.device = cost_.device().name;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const OpShardSpec& choice = choose(static_cast<graph::NodeId>(n));
      for (std::size_t o = 0; o < node.outputs.size(); ++o)
        if (node.outputs[o] != graph::no_value) specs_[node.outputs[o]] = choice.outputs[o];
      plan.operators.push_back(choice);
    }
    return plan;
  }

 private:
  void place_stored() {
    for (const ValueId input : graph_.inputs) place(input);
    for (std::size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].constant) place(static_cast<ValueId>(v));
  }

  void place(ValueId id) {
    const graph::Value& value = graph_.value(id);
    const auto entry = entries_.stored.find(value.name);
    const bool fits = entry != entries_.stored.end() &&
                      entry->second->outputs->front().dims.size() == value.shape.size();
    if (!fits && value.constant && !value.constant->has_data())
      fail("weight '{}' is needed, which no rank has; partition the model with this shape, too",
           value.name);
    specs_[id] =
        fits ? entry->second->outputs->front() : TensorShardSpec::replicated(value.shape.size());
  }

  /// A state's output lies as the input does which it follows.
  void require_states() {
    for (const graph::State& state : graph_.states)
      required_[graph_.outputs[state.output]] = specs_.at(graph_.inputs[state.input]);
  }

  const OpShardSpec& choose(graph::NodeId id) {
    const Node& node = graph_.node(id);
    strategies_ = table_.of(id);
    const std::vector<OpShardSpec>& choices = strategies_->choices;
    if (const auto entry = entries_.operators.find(node.name); entry != entries_.operators.end()) {
      const auto same = std::ranges::find_if(choices, [&](const OpShardSpec& choice) {
        return is_strategy(*entry->second, choice) && can_read(node, choice);
      });
      if (same != choices.end()) return *same;
    }
    return cheapest(node);
  }

  /// Whether no input is to be partial that has been made whole.
  bool can_read(const Node& node, const OpShardSpec& choice) const {
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] != graph::no_value &&
          !sharding::can_connect(specs_.at(node.inputs[i]), choice.inputs[i]))
        return false;
    return true;
  }

  /// With what it takes to bring inputs into its specs; the first of equal ones.
  const OpShardSpec& cheapest(const Node& node) {
    const OpShardSpec* best = nullptr;
    double least = 0;
    for (std::size_t c = 0; c < strategies_->choices.size(); ++c) {
      const OpShardSpec& choice = strategies_->choices[c];
      if (has_partial(choice.inputs) || has_partial(choice.outputs) || !meets(node, choice))
        continue;
      const double seconds = in_seconds(strategies_->costs[c]) + seconds_before(node, choice);
      if (best == nullptr || seconds < least) std::tie(best, least) = std::pair(&choice, seconds);
    }
    if (best == nullptr)
      fail(
          "operator '{}' has no strategy that leaves a state as it lies; partition the model with "
          "this shape, too",
          node.name);
    return *best;
  }

  bool meets(const Node& node, const OpShardSpec& choice) const {
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const auto required = required_.find(node.outputs[o]);
      if (required != required_.end() && required->second != choice.outputs[o]) return false;
    }
    return true;
  }

  const sharding::StepPrice& price_of(const graph::Value& value) {
    const cost::MemoryOrder order = cost_.order_of(value);
    sharding::StepPrice& price = prices_[order];
    if (!price) price = cost_.step_price(order);
    return price;
  }

  double seconds_before(const Node& node, const OpShardSpec& choice) {
    double seconds = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == graph::no_value || specs_.at(id) == choice.inputs[i]) continue;
      const graph::Value& value = graph_.value(id);
      seconds += sharding::connect(specs_.at(id), choice.inputs[i], value.shape, value.type,
                                   cost_.mesh(), price_of(value))
                     .seconds;
    }
    return seconds;
  }

  const Graph& graph_;
  const cost::CostModel& cost_;
  std::map<cost::MemoryOrder, sharding::StepPrice> prices_;  ///< made when first asked for
  const Entries entries_;
  const std::vector<Pin> none_{};
  const Pins no_pins_;
  StrategyTable table_;
  std::map<ValueId, TensorShardSpec> specs_;     ///< as values are stored, or left by operators
  std::map<ValueId, TensorShardSpec> required_;  ///< of outputs that are states
  std::shared_ptr<const OperatorStrategies> strategies_;  ///< of the operator that chooses
};

}  // namespace

plan::Plan similar_plan(const Graph& graph, const std::vector<Pin>& other,
                        const cost::CostModel& cost) {
  return SimilarPlan(graph, other, cost).make();
}

}  // namespace autopar::search
