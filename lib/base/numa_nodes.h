#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/usable_cores.h"

namespace autopar {

/// The cores of each NUMA node of the machine that has any, by the node's number; none where the
/// kernel tells of none. `root`: where /sys is.
std::vector<CoreSet> numa_nodes(const std::filesystem::path& root = "/");

/// Spreads users of the same cores over the nodes that these belong to: users that follow each
/// other share a node, or have several that follow each other. By user, its cores. Empty where that
/// changes nothing, or would leave some of them fewer cores than others: of one node or user, or
/// where neither number divides the other, or nodes differ in size.
std::vector<CoreSet> spread_over_nodes(const CoreSet& cores, const std::vector<CoreSet>& nodes,
                                       std::size_t users);

}  // namespace autopar
