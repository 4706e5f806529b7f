#include "search/missing_collectives.h"

#include <algorithm>
#include <tuple>

#include "search/cost_tables.h"
#include "search/part_context.h"

namespace autopar::search {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Value;
using graph::ValueId;
using sharding::OpShardSpec;
using sharding::TensorShardSpec;

/// One profile, and its strategies in the problem that has no solution.
struct Searched {
  const Graph& graph;
  const cost::CostModel& cost;
  const PlanProblem& built;
  std::size_t part;

  const OperatorStrategies& strategies(NodeId node) const {
    return *built.operators[built.parts[part].first_node + node];
  }
};

SpecList specs_made(const Searched& searched, NodeId producer, ValueId value) {
  if (producer == graph::no_node) return searched.built.stored_of(value, searched.part).specs;
  const auto& outputs = searched.graph.node(producer).outputs;
  const auto place = std::ranges::find(outputs, value) - outputs.begin();
  SpecList specs;
  for (const OpShardSpec& choice : searched.strategies(producer).choices)
    specs.push_back(choice.outputs[place]);
  return specs;
}

/// An operator that reads a value which nothing brings there; empty where there is none.
std::string unreachable_input(const Searched& searched) {
  CostTables tables(searched.cost);
  const auto producers = graph::producers(searched.graph);
  const auto arrives = [&](const Value& value, const SpecList& made, const TensorShardSpec& read) {
    return std::ranges::any_of(made, [&](const TensorShardSpec& from) {
      return tables.connect_cost(value, from, read) < assignment::impossible;
    });
  };
  for (std::size_t n = 0; n < searched.graph.nodes.size(); ++n) {
    const graph::Node& node = searched.graph.nodes[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == graph::no_value) continue;
      const Value& value = searched.graph.value(node.inputs[i]);
      const SpecList made = specs_made(searched, producers[node.inputs[i]], node.inputs[i]);
      const auto can_read = [&](const OpShardSpec& choice) {
        return arrives(value, made, choice.inputs[i]);
      };
      if (std::ranges::none_of(searched.strategies(static_cast<NodeId>(n)).choices, can_read))
        return fmt::format("tensor '{}' cannot come to operator '{}'", value.name, node.name);
    }
  }
  return {};
}

/// Whether some strategy splits the input and leaves its outputs so that they can be put together.
bool can_be_split(const Searched& searched, const cost::CostModel& cost, NodeId id, std::size_t i) {
  static const std::vector<Pin> none;
  const Pins no_pins(none, searched.graph);
  StrategyTable table(searched.graph, cost, no_pins, KeepPartial::never);
  CostTables tables(cost);
  const graph::Node& node = searched.graph.node(id);
  const auto can_be_gathered = [&](const OpShardSpec& choice) {
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == graph::no_value) continue;
      const Value& value = searched.graph.value(node.outputs[o]);
      const auto whole = TensorShardSpec::replicated(value.shape.size());
      if (tables.connect_cost(value, choice.outputs[o], whole) >= assignment::impossible)
        return false;
    }
    return true;
  };
  return std::ranges::any_of(table.of(id)->choices, [&](const OpShardSpec& choice) {
    return choice.inputs[i] != TensorShardSpec::replicated(choice.inputs[i].dims.size()) &&
           can_be_gathered(choice);
  });
}

struct WholeWeight {
  std::int64_t bytes = 0;
  const Value* weight = nullptr;
  const graph::Node* reader = nullptr;
};

/// The largest weight that all collectives would let be split, and these do not.
WholeWeight largest_whole_weight(const Searched& searched) {
  cost::DeviceModel with_all = searched.cost.device();
  with_all.collectives = nullptr;
  const cost::CostModel of_all(with_all, searched.cost.mesh());
  WholeWeight largest;
  for (std::size_t n = 0; n < searched.graph.nodes.size(); ++n) {
    const graph::Node& node = searched.graph.nodes[n];
    const auto id = static_cast<NodeId>(n);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!searched.graph.is_constant(node.inputs[i])) continue;
      const Value& weight = searched.graph.value(node.inputs[i]);
      const std::int64_t bytes = whole_bytes(weight);
      if (bytes > largest.bytes && !can_be_split(searched, searched.cost, id, i) &&
          can_be_split(searched, of_all, id, i))
        largest = {bytes, &weight, &node};
    }
  }
  return largest;
}

std::string reason(const Searched& searched) {
  if (std::string input = unreachable_input(searched); !input.empty()) return input;
  const WholeWeight whole = largest_whole_weight(searched);
  if (whole.weight == nullptr) return {};
  return fmt::format("operator '{}' needs weight '{}' ({} bytes) whole on every rank",
                     whole.reader->name, whole.weight->name, whole.bytes);
}

}  // namespace

std::string what_stands_against(std::span<const Profile> profiles, const PlanProblem& built) {
  const cost::CollectiveSet* only = profiles.front().cost->device().collectives.get();
  if (only == nullptr) return {};
  for (std::size_t p = 0; p < profiles.size(); ++p) {
    const std::string found = reason({profiles[p].stage->graph, *profiles[p].cost, built, p});
    if (!found.empty())
      return fmt::format(
          "; with the collectives of --shards {} {}: give fewer ranks or another flavour",
          only->name, found);
  }
  return {};
}

}  // namespace autopar::search
