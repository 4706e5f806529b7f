#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

/// A buffer that must exist from step `first` to step `last`, both included.
struct BufferLifetime {
  std::int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

/// What a buffer takes of an arena: a multiple of 64 bytes.
std::int64_t aligned(std::int64_t bytes);

struct ArenaPlan {
  std::vector<std::int64_t> offsets;  ///< by buffer, 64-byte aligned
  std::int64_t bytes = 0;             ///< the arena's size
};

/// Packs buffers into one arena so that no two that live at the same time overlap: greedy by size,
/// first gap that fits (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
/// Inference", 2020). The size does not depend on the order of the buffers.
ArenaPlan plan_arena(std::span<const BufferLifetime> buffers);

/// A lifetime for each value of the graph, by ValueId, a step a node: inputs live from step 0,
/// outputs and the inputs of states to the last step; constants and values that no node makes or
/// reads have 0 bytes.
std::vector<BufferLifetime> value_lifetimes(const Graph& graph);

/// A runtime that aliases and fuses keeps some values longer and packs others elsewhere, for which
/// it may take a quarter more than the values themselves, and a page.
constexpr std::int64_t with_arena_slack(std::int64_t bytes) { return bytes + bytes / 4; }

/// What the arenas of the bodies of the graph's loops may take; 0 where it has none.
std::int64_t bodies_bound(const Graph& graph);

/// What an arena for the graph and constants computed for it may take: every value in memory of its
/// own, packed by plan_arena, with slack and a page, and beside it bodies_bound and
/// derived_constant_bytes. No device of the runtime takes more: what would is compiled without
/// fusions.
std::int64_t arena_bound(const Graph& graph);

/// Copies that a runtime keeps of each value, by ValueId, outside of what it packs, so that one
/// microbatch's can be received or sent while another's is in use: one a microbatch of the graph's
/// inputs and outputs, two of what a Recv makes or a Send reads. 0 for a value that is packed: with
/// one microbatch, each.
std::vector<int> value_slots(const Graph& graph, int microbatches);

/// What an arena for this many microbatches may take beyond arena_bound: the values that have slots
/// lie in those, 64-byte aligned each, and no longer among the others.
std::int64_t slot_bytes(const Graph& graph, int microbatches);

}  // namespace autopar::graph
