#include "search/part_context.h"

#include <algorithm>

namespace autopar::search {

namespace {

/// A value of one step alone is worth a node of the problem from this part of the limit on.
constexpr std::int64_t smallest_counted_share = 64;

}  // namespace

PartContext::PartContext(const graph::Graph& of_graph,
                         std::span<const graph::ValueId> inputs_received,
                         const cost::CostModel& cost_model, double weight,
                         std::vector<Pin> pins_of_it, const Neighbourhood& near_plans,
                         const Symmetry& symmetry_of_axes, KeepPartial keep, int first_node,
                         Problems& problems)
    : graph(of_graph),
      cost(cost_model),
      received(inputs_received.begin(), inputs_received.end()),
      own_pins(std::move(pins_of_it)),
      pins(own_pins, graph, &problems),
      near(near_plans),
      symmetry(symmetry_of_axes),
      prices(near.prices ? near.prices
                         : std::make_shared<cost::ConnectionPrices>(cost, symmetry.relaxed(),
                                                                    symmetry.limit)),
      strategies(graph, cost, pins, keep, weight, near, symmetry, prices),
      uses(find_uses(graph, cost, first_node)),
      tables(cost, weight, prices) {
  check_meshes(own_pins, cost.mesh(), problems);
}

std::pair<int, const SpecList*> source_of(PartContext& context, const PlanProblem& built,
                                          std::size_t part, graph::ValueId id) {
  const graph::NodeId producer = context.uses.producers[id];
  if (producer == graph::no_node) {
    const PlanProblem::Stored& stored = built.stored_of(id, part);
    return {stored.node, context.tables.shared(stored.specs)};
  }
  const auto& outputs = context.graph.node(producer).outputs;
  const auto output = std::ranges::find(outputs, id) - outputs.begin();
  const int node = context.uses.node_of(producer);
  return {node, context.tables.specs(*built.operators[node], static_cast<std::size_t>(output),
                                     &sharding::OpShardSpec::outputs)};
}

std::int64_t whole_bytes(const graph::Value& value) {
  return bytes_of(value.type, graph::num_elements(value.shape));
}

bool is_worth_counting(std::int64_t bytes, std::int64_t limit) {
  return bytes > limit / smallest_counted_share;
}

}  // namespace autopar::search
