#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "assignment/assignment_problem.h"
#include "cost/connection_prices.h"
#include "cost/cost_model.h"
#include "graph/graph.h"
#include "search/partial_flow.h"
#include "search/pins.h"
#include "search/profile.h"

namespace autopar::search {

/// The strategies of an operator with their costs, but for those whose reductions take collectives
/// that the device has none of. Operators that are alike share one.
struct OperatorStrategies {
  std::vector<sharding::OpShardSpec> choices;
  std::vector<assignment::Cost> costs;     ///< picoseconds, with the reductions, times the weight
  std::vector<std::int64_t> output_bytes;  ///< of the arena, after the reductions
  std::vector<std::int64_t> inner_bytes;   ///< of the arena, within the operator's own step
  bool has_rule = true;                    ///< false: only replicated, for want of a rule
};

/// Makes them, once for all operators with the same rule, shapes, types, partial values and pin,
/// and the same strategies in the plans that it keeps to.
class StrategyTable {
 public:
  /// Costs are times the weight.
  StrategyTable(const graph::Graph& graph, const cost::CostModel& cost, const Pins& pins,
                KeepPartial keep = KeepPartial::where_it_may_save, double weight = 1,
                const Neighbourhood& near = {}, const Symmetry& symmetry = {},
                SharedPrices prices = nullptr);
  /// Throws Error where the operator's pin, or what the device's collectives allow of it, leaves
  /// none, or a price is implausible.
  std::shared_ptr<const OperatorStrategies> of(graph::NodeId id);

 private:
  std::vector<sharding::OpShardSpec> choices_of(graph::NodeId id,
                                                const sharding::ShardingRule& rule) const;
  void drop_without_collectives(const graph::Node& node, const sharding::ShardingRule& rule,
                                std::vector<sharding::OpShardSpec>& choices);

  const graph::Graph& graph_;
  const cost::CostModel& cost_;
  const SharedPrices prices_;
  const Pins& pins_;
  const double weight_;
  const Neighbourhood near_;
  const Symmetry symmetry_;
  const NodeRules rules_;
  const std::vector<sharding::PartialUse> partial_uses_;
  std::map<std::string, std::shared_ptr<const OperatorStrategies>> made_;
};

inline constexpr double seconds_per_cost = 1e-12;
inline double in_seconds(assignment::Cost cost) {
  return static_cast<double>(cost) * seconds_per_cost;
}
/// Throws Error, naming what is priced, where the price is out of all proportion.
assignment::Cost picoseconds(double seconds, std::string_view of);

/// The arena's bytes for the value on rank 0, which holds most, where it is stored.
std::int64_t arena_bytes(const graph::Value& value, const sharding::TensorShardSpec& spec,
                         const cost::CostModel& cost);

}  // namespace autopar::search
