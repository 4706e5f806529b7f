#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace autopar::search {

/// By graph, the number of each constant; the same in several graphs where it is one weight: where
/// name, type, shape and data are equal. Of models that were read without their weights, name, type
/// and shape tell. Numbers begin with 0 and grow by graph and ValueId.
std::vector<std::map<graph::ValueId, int>> join_weights(
    std::span<const graph::Graph* const> graphs);

/// Bytes of the constants of all graphs, those that are one weight once.
std::int64_t joined_weight_bytes(std::span<const graph::Graph* const> graphs);

}  // namespace autopar::search
