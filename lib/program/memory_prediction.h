#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/arena.h"
#include "program/lowering.h"

namespace autopar::program {

/// The bytes that a run of a rank's graph needs beside its constants, for so many microbatches and
/// without kernels' scratch memory. Only the runtime, which stands above, knows them; so they are
/// handed in.
using RunBytes = std::function<std::int64_t(const graph::Graph& rank_graph, int microbatches)>;

/// Bytes that no device of the runtime exceeds: graph::arena_bound and graph::slot_bytes.
std::int64_t most_run_bytes(const graph::Graph& rank_graph, int microbatches);

struct MemoryPrediction {
  std::int64_t weight_bytes = 0;  ///< all constants
  std::int64_t peak_bytes = 0;    ///< with all else that a run needs
};

/// The most that a run of one rank's graph needs, kernels' scratch memory aside.
MemoryPrediction predict_memory(const graph::Graph& rank_graph, int microbatches = 1,
                                const RunBytes& run_bytes = most_run_bytes);

/// The ranks by class: those of one need the same memory, since their shares have the same extents,
/// and those of placed factors (ShardingRule) begin at 0 or do not.
std::vector<std::vector<int>> alike_ranks(const Program& program);

/// Whether two ranks' graphs of one program differ in nothing that a run's memory depends on: only
/// in their ranks, and in the numbers of their constants.
bool are_alike(const graph::Graph& a, const graph::Graph& b);

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

/// Bytes of all values alive at each step, constants aside; a step a node.
std::vector<std::int64_t> activation_bytes(const RunGraph& run);

/// The first of several equal peaks. `largest` has at most `most_listed` buffers.
MemoryPeak find_memory_peak(const RunGraph& run, std::size_t most_listed);

}  // namespace autopar::program
