#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::bundle {

/// Calls and payload bytes of one kind of collective over one set of mesh axes, summed over calls
/// and ranks: predicted in meta-info.json, counted by a run, in the same form.
struct CollectiveTotal {
  std::string kind;  ///< "all-reduce", "all-gather", "reduce-scatter", "all-to-all", ...
  std::vector<int> mesh_axes;
  std::int64_t count = 0;  ///< calls, each counted once a participating rank
  std::int64_t bytes = 0;
  friend bool operator==(const CollectiveTotal&, const CollectiveTotal&) = default;
};
/// Adds to the entry of the same kind and axes, or inserts it; keeps entries sorted by kind and
/// axes.
void add_collective(std::vector<CollectiveTotal>& totals, const CollectiveTotal& more);

}  // namespace autopar::bundle
