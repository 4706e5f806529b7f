#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace autopar::partition {

/// When one rank's graph needs most memory, and for what.
struct MemoryPeak {
  struct Buffer {
    std::string name;
    graph::Shape shape;
    std::int64_t bytes = 0;
  };
  std::string node;                   ///< the operator or collective that runs then
  std::string op_type;                ///< qualified; both empty for a graph without nodes
  std::vector<Buffer> largest;        ///< alive then, constants aside, largest first
  std::int64_t weight_bytes = 0;      ///< all constants
  std::int64_t activation_bytes = 0;  ///< all values alive then
  /// What predict_memory adds: for packing values into one arena, and the arena's slack.
  std::int64_t reserve_bytes = 0;
};

/// The first of several equal peaks. `largest` has at most `most_listed` buffers.
MemoryPeak find_memory_peak(const graph::Graph& rank_graph, std::size_t most_listed);

}  // namespace autopar::partition
