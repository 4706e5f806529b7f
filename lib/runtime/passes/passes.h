#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "runtime/kernel.h"

/// Rewrites of a graph before it is compiled. Each keeps what the graph computes and leaves dead
/// nodes to graph::remove_dead_nodes.
namespace autopar::runtime::passes {

/// The domain of operators that only the compiler makes:
///
///   FusedMatMul(A, B, bias?)  transA, transB (ints): the last two dimensions of A or B swapped
///                             before the product; bias has one element a column
///   ElementwiseChain(...)     several element-wise operators (kernels/elementwise_chain.h)
///   CollectiveGroup(...)      several collectives that go out together, input i and output i of
///                             member i (kernels/collective_group.h)
inline constexpr const char* internal_domain = "autopar.internal";

/// MatMul of a Transpose becomes a FusedMatMul with transA or transB. A Transpose of the last two
/// dimensions vanishes. One of more dimensions that brings the innermost to the second last place
/// becomes one that leaves it innermost, which copies whole rows, if nothing else reads it.
void fuse_transposes(graph::Graph& graph);

/// Add of a constant with one element a column, right after a MatMul that nothing else reads,
/// becomes the FusedMatMul's bias.
void fuse_biases(graph::Graph& graph);

/// Runs nodes whose inputs are all constants, unless their outputs are large though the inputs are
/// small. Returns the bytes of memory that the new constants take.
std::int64_t fold_constants(graph::Graph& graph);

/// Element-wise nodes that follow one another on tensors of one shape, and whose results between
/// nothing else reads, become one ElementwiseChain at the last one's place. It computes them tile
/// by tile, so that what lies between never leaves the cache.
void fuse_elementwise_chains(graph::Graph& graph, const KernelTable& kernels);

/// Collectives that follow one another, with other operators at most between them, become one
/// CollectiveGroup at the first one's place if all that they read is made before it. Collectives of
/// constants stay: they are always ready, and what they make had better not live longer. All ranks
/// must send in one order, so this looks at the graph's structure alone, which their graphs share,
/// never at sizes.
void group_collectives(graph::Graph& graph);

struct Rewrites {
  bool fuse = true;               ///< folding included
  bool group_collectives = true;  ///< the same on all ranks
};

/// All that are wanted and that the device has kernels for, in the order that lets each do the
/// most, but for fusions that would make the arena larger than the graph needs without. Returns
/// fold_constants' bytes.
std::int64_t optimize(graph::Graph& graph, const KernelTable& kernels, Rewrites rewrites = {});

}  // namespace autopar::runtime::passes
