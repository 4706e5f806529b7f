#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/arena.h"
#include "graph/graph.h"
#include "runtime/kernel.h"

namespace autopar::runtime {

/// Whose bytes each value has. A value is its own *root*, unless it views another value: then its
/// root is that value's. The root's buffer lives as long as any value with that root.
struct Storage {
  std::vector<graph::ValueId> roots;  ///< by ValueId
  graph::ValueId root(graph::ValueId id) const { return roots[static_cast<std::size_t>(id)]; }
};

/// Outputs that the device's kernels make as a view of their first input share its bytes, except
/// for graph outputs that would be an input or a constant in another shape.
Storage alias_views(const graph::Graph& graph, const KernelTable& kernels);

/// One lifetime a root, by ValueId: from the first to the last of the values that share its bytes;
/// of 0 bytes for views.
std::vector<graph::BufferLifetime> root_lifetimes(const graph::Graph& graph,
                                                  const Storage& storage);

/// Where a value lies in the arena.
struct ValuePlace {
  std::int64_t offset = 0;      ///< of the first slot
  int slots = 0;                ///< 0: in one place for all microbatches
  std::int64_t slot_bytes = 0;  ///< from one slot to the next
};

/// Where every value and every step's scratch memory lies in the arena.
struct MemoryPlan {
  std::vector<ValuePlace> values;             ///< by ValueId; of no meaning for constants
  std::vector<std::int64_t> scratch_offsets;  ///< by step
  std::int64_t arena_bytes = 0;
  std::int64_t bytes_without_scratch = 0;  ///< the arena that values alone would need

  /// Microbatch k is in slot k, and where there are fewer, begins with the first again.
  std::int64_t value_offset(graph::ValueId id, int microbatch) const {
    const ValuePlace& place = values[static_cast<std::size_t>(id)];
    return place.offset + microbatch % std::max(1, place.slots) * place.slot_bytes;
  }
};

/// Values and scratch that share memory with nothing else: so that steps of several microbatches
/// can be at work at the same time, or because they lie elsewhere.
struct Apart {
  std::vector<bool> elsewhere;  ///< by ValueId: inputs outside of the arena. Empty: none
  std::vector<int> slots;  ///< by ValueId; 0 for what is packed. A root has the most of its views
  std::vector<Queue> scratch;  ///< by step: those of receiving and sending have a region each
};

/// A step a node. `scratch_bytes` has one entry a step.
MemoryPlan plan_memory(const graph::Graph& graph, const Storage& storage,
                       std::span<const std::int64_t> scratch_bytes, const Apart& apart = {});

}  // namespace autopar::runtime
