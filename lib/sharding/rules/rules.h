#pragma once

#include "sharding/sharding_rule.h"

/// The rule functions that rules/table.cpp names, grouped by the file that has them. A dimension
/// that a rule calls whole has no factor, so it is never split.
namespace autopar::sharding::rules {

// elementwise.cpp
ShardingRule elementwise(const graph::Graph& graph, const graph::Node& node);
ShardingRule identity(const graph::Graph& graph, const graph::Node& node);
ShardingRule cast_like(const graph::Graph& graph, const graph::Node& node);

// matmul.cpp
ShardingRule matmul(const graph::Graph& graph, const graph::Node& node);
ShardingRule gemm(const graph::Graph& graph, const graph::Node& node);

}  // namespace autopar::sharding::rules
