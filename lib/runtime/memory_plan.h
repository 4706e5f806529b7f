#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace autopar::runtime {

/// Whose bytes each value has. A value is its own *root*, unless it views another value: then its
/// root is that value's. The root's buffer lives as long as any value with that root.
class Storage {
 public:
  explicit Storage(const graph::Graph& graph);

  /// Makes `view` share the bytes of `source`.
  void alias(graph::ValueId view, graph::ValueId source);
  graph::ValueId root(graph::ValueId id) const { return roots_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<graph::ValueId> roots_;
};

/// Where every value and every step's scratch memory lies in the arena.
struct MemoryPlan {
  std::vector<std::int64_t> value_offsets;    ///< by ValueId; of no meaning for constants
  std::vector<std::int64_t> scratch_offsets;  ///< by step
  std::int64_t arena_bytes = 0;
  std::int64_t bytes_without_scratch = 0;  ///< the arena that values alone would need
};

/// A step a node. `scratch_bytes` has one entry a step.
MemoryPlan plan_memory(const graph::Graph& graph, const Storage& storage,
                       std::span<const std::int64_t> scratch_bytes);

}  // namespace autopar::runtime
