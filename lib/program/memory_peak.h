#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/arena.h"
#include "graph/graph.h"
#include "program/memory_prediction.h"

namespace autopar::program {

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
  /// Predicted beside these: for packing values into one arena, and for constants that are folded.
  std::int64_t reserve_bytes = 0;
};

/// A rank's graph as it is run: with a lifetime for each value, and what is predicted for all.
struct RunGraph {
  graph::Graph graph;
  std::vector<graph::BufferLifetime> lifetimes;  ///< by ValueId
  MemoryPrediction predicted;
};

/// The first of several equal peaks. `largest` has at most `most_listed` buffers.
MemoryPeak find_memory_peak(const RunGraph& run, std::size_t most_listed);

}  // namespace autopar::program
