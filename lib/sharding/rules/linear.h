#pragma once

#include <vector>

#include "graph/graph.h"

/// The groups of inputs in which an operator is jointly linear (ShardingRule::linear): the last
/// column of rules/table.cpp. sharding_rule drops what types forbid and inputs that are left out.
namespace autopar::sharding::linear {

using Groups = std::vector<std::vector<int>>;

/// Copies, scales or adds up elements of the first input, whatever the others are.
Groups in_first(const graph::Graph& graph, const graph::Node& node);
/// A product.
Groups in_each(const graph::Graph& graph, const graph::Node& node);
/// A sum, or inputs side by side.
Groups in_all(const graph::Graph& graph, const graph::Node& node);
/// Where.
Groups in_branches(const graph::Graph& graph, const graph::Node& node);
/// A product of the first two inputs to which the third is added.
Groups in_factors(const graph::Graph& graph, const graph::Node& node);
/// MatMulNBits: a product of the first input with a constant, to which input 5 is added.
Groups in_first_and_bias(const graph::Graph& graph, const graph::Node& node);
/// DeformConv: data or weights, and the bias.
Groups in_deformed(const graph::Graph& graph, const graph::Node& node);
/// RoiAlign, where it does not take maxima.
Groups in_averages(const graph::Graph& graph, const graph::Node& node);
/// A scatter that replaces or adds.
Groups in_updates(const graph::Graph& graph, const graph::Node& node);
/// A cache and what is written to it.
Groups in_cache(const graph::Graph& graph, const graph::Node& node);
/// Attention's values, where keys do not come out as well.
Groups in_values(const graph::Graph& graph, const graph::Node& node);
/// Pad: what is added is nothing.
Groups in_padded(const graph::Graph& graph, const graph::Node& node);

}  // namespace autopar::sharding::linear
