#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace autopar::plan {

/// The name with what numbers the layers and the operators taken out, so that repeated layers' are
/// equal: "/layers.3/q_proj/MatMul" gives "/layers.*/q_proj/MatMul", "node_linear_17" and
/// "node_linear" give "node_linear".
std::string name_pattern(std::string_view name);

/// One name for several: a glob with `*` for the layers' numbers in which they differ, where they
/// differ in nothing but numbers; all else is as in the first of them.
std::string common_name(std::span<const std::string> names);

/// Operators of a plan that are one operator of repeated layers: equal in type, attributes, shapes,
/// name pattern, strategy, the specs in which their inputs come, and the types of the operators
/// around them.
struct OperatorGroup {
  std::vector<graph::NodeId> members;                ///< ascending, at least one
  std::string name;                                  ///< common_name of the members'
  std::vector<sharding::TensorShardSpec> inputs_as;  ///< as producers leave them or they are stored
  std::string weight;  ///< common name of their largest weight matrices; empty without
  double seconds = 0;  ///< of one member with its reductions, inputs as it wants them
  /// A product, a reader of a weight matrix, an operator that reduces, or a large part of the run.
  bool is_major = false;
};

/// By first member. The plan must have been found for this cost model.
std::vector<OperatorGroup> group_operators(const graph::Graph& graph, const cost::CostModel& cost,
                                           const Plan& plan);

}  // namespace autopar::plan
