#include "runtime/kernel.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {

std::int64_t optimize(graph::Graph& graph) {
  const bool can_fuse = find_cpu_kernel(internal_domain, "FusedMatMul") != nullptr;
  if (can_fuse) fuse_transposes(graph);  // before folding, which would copy a transposed weight
  graph::remove_dead_nodes(graph);
  const std::int64_t bytes = fold_constants(graph);
  graph::remove_dead_nodes(graph);
  if (can_fuse) fuse_biases(graph);
  graph::remove_dead_nodes(graph);
  fuse_elementwise_chains(graph);
  graph::remove_dead_nodes(graph);
  return bytes;
}

}  // namespace autopar::runtime::passes
