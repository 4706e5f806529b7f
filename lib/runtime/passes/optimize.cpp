#include <algorithm>

#include "graph/arena.h"
#include "runtime/memory_plan.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using Pass = void (*)(Graph&, const KernelTable&);

/// What the values take, those that kernels alias in the memory of what they view.
std::int64_t planned_bytes(const Graph& graph, const KernelTable& kernels) {
  const std::vector<std::int64_t> no_scratch(graph.nodes.size());
  return plan_memory(graph, alias_views(graph, kernels), no_scratch).arena_bytes;
}

/// Fusing makes some values live longer. Memory is predicted for the graph as it was: a pass that
/// would need more is left out.
void apply_within(std::int64_t limit, Graph& graph, const KernelTable& kernels, Pass pass) {
  Graph rewritten = graph;
  pass(rewritten, kernels);
  graph::remove_dead_nodes(rewritten);
  if (planned_bytes(rewritten, kernels) <= limit) graph = std::move(rewritten);
}

/// What is folded takes memory of its own, for the whole run: where that would be more than the
/// arena may take, nothing is. Returns its bytes.
std::int64_t fold_within(std::int64_t limit, Graph& graph, const KernelTable& kernels) {
  Graph folded = graph;
  const std::int64_t bytes = fold_constants(folded);
  graph::remove_dead_nodes(folded);
  if (bytes + planned_bytes(folded, kernels) > limit) return 0;
  graph = std::move(folded);
  return bytes;
}

}  // namespace

std::int64_t optimize(Graph& graph, const KernelTable& kernels, Rewrites rewrites) {
  const bool can_group = kernels.find(internal_domain, "CollectiveGroup") != nullptr;
  if (rewrites.group_collectives && can_group) group_collectives(graph);
  if (!rewrites.fuse) return 0;
  const std::int64_t limit = std::max(graph::plan_arena(graph::value_lifetimes(graph)).bytes,
                                      planned_bytes(graph, kernels));
  // Before folding, which would unpack small weights and copy transposed ones.
  for (const Pass pass : {fuse_quantized_products, fuse_transposes})
    apply_within(limit, graph, kernels, pass);
  const std::int64_t bound = graph::arena_bound(graph);
  std::int64_t bytes = fold_within(bound, graph, kernels);
  bytes += fold_channel_scales(graph, kernels);
  graph::remove_dead_nodes(graph);
  for (const Pass pass :
       {drop_identities, fuse_gathered_products, fuse_normalizations, fuse_activations,
        fuse_rotary_embeddings, fuse_attention, fuse_masked_softmax, fuse_biases,
        fuse_product_activations, fuse_permutations, fuse_elementwise_chains})
    apply_within(std::min(limit, bound - bytes), graph, kernels, pass);
  return bytes;
}

}  // namespace autopar::runtime::passes
