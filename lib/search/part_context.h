#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "search/cost_tables.h"
#include "search/operator_strategies.h"
#include "search/plan_builder.h"
#include "search/problem_parts.h"

namespace autopar::search {

/// What the builder of an assignment problem knows of one profile. Keeps references to graph and
/// cost model.
struct PartContext {
  /// `pins` are those of this profile alone; what is wrong with them goes to `problems`.
  PartContext(const graph::Graph& of_graph, std::span<const graph::ValueId> inputs_received,
              const cost::CostModel& cost_model, double weight, std::vector<Pin> pins_of_it,
              const Neighbourhood& near_plans, const Symmetry& symmetry_of_axes, KeepPartial keep,
              int first_node, Problems& problems);
  PartContext(const PartContext&) = delete;

  const graph::Graph& graph;
  const cost::CostModel& cost;
  const std::set<graph::ValueId> received;  ///< inputs that come from another mesh
  const std::vector<Pin> own_pins;
  const Pins pins;
  const Neighbourhood near;
  const Symmetry symmetry;
  const SharedPrices prices;
  StrategyTable strategies;
  const GraphUses uses;
  CostTables tables;
};

/// The problem's node that a value of the part comes from, and the value's spec by that node's
/// strategy.
std::pair<int, const SpecList*> source_of(PartContext& context, const PlanProblem& built,
                                          std::size_t part, graph::ValueId id);

std::int64_t whole_bytes(const graph::Value& value);

/// Whether a value of one step alone is worth a node of the problem.
bool is_worth_counting(std::int64_t bytes, std::int64_t limit);

}  // namespace autopar::search
