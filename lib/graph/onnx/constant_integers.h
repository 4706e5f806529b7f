#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

/// The elements of a constant that decides on a graph's structure, and whose type nobody has
/// checked yet. Its data is there. Throws Error where it has no integers or truth values, without
/// the node's name.
std::vector<std::int64_t> constant_integers(const Value& constant);

}  // namespace autopar::graph
