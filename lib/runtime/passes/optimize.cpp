#include "graph/arena.h"
#include "runtime/kernel.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;

std::int64_t arena_bytes(const Graph& graph) {
  return graph::plan_arena(graph::value_lifetimes(graph)).bytes;
}

/// Fusing makes some values live longer. Memory is predicted for the graph as it was: a pass that
/// would need more is left out.
template <typename Pass>
void apply_within(std::int64_t limit, Graph& graph, Pass pass) {
  Graph rewritten = graph;
  pass(rewritten);
  graph::remove_dead_nodes(rewritten);
  if (arena_bytes(rewritten) <= limit) graph = std::move(rewritten);
}

}  // namespace

std::int64_t optimize(Graph& graph, const KernelTable& kernels, Rewrites rewrites) {
  const bool can_group = kernels.find(internal_domain, "CollectiveGroup") != nullptr;
  if (rewrites.group_collectives && can_group) group_collectives(graph);
  if (!rewrites.fuse) return 0;
  const std::int64_t limit = arena_bytes(graph);
  const bool can_fuse_products = kernels.find(internal_domain, "FusedMatMul") != nullptr;
  // Before folding, which would copy a transposed weight.
  if (can_fuse_products) apply_within(limit, graph, fuse_transposes);
  const std::int64_t bytes = fold_constants(graph);
  graph::remove_dead_nodes(graph);
  if (can_fuse_products) apply_within(limit, graph, fuse_biases);
  if (kernels.find(internal_domain, "ElementwiseChain") != nullptr)
    apply_within(limit, graph, [&](Graph& each) { fuse_elementwise_chains(each, kernels); });
  return bytes;
}

}  // namespace autopar::runtime::passes
