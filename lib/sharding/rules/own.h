#pragma once

#include "sharding/sharding_rule.h"

/// The rules of autopar's own operators (graph/own_operators.h).
namespace autopar::sharding::rules {

ShardingRule tree_sums(const graph::Graph& graph, const graph::Node& node);
ShardingRule expert_matmul_n_bits(const graph::Graph& graph, const graph::Node& node);

}  // namespace autopar::sharding::rules
