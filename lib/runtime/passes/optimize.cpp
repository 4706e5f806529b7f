#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph/arena.h"
#include "runtime/memory_plan.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using Pass = void (*)(Graph&, const KernelTable&);

/// Memory of the values, those that kernels alias in the memory of what they view.
std::int64_t planned_bytes(const Graph& graph, const KernelTable& kernels) {
  const std::vector<std::int64_t> no_scratch(graph.nodes.size());
  return plan_memory(graph, alias_views(graph, kernels), no_scratch).arena_bytes;
}

/// The nodes' operators, inputs and outputs, which decide how long values live.
std::vector<std::size_t> structure_of(const Graph& graph) {
  std::vector<std::size_t> structure;
  for (const graph::Node& node : graph.nodes) {
    structure.push_back(std::hash<std::string>{}(node.op_type));
    structure.push_back(node.inputs.size());
    for (const graph::ValueId id : node.inputs) structure.push_back(static_cast<std::size_t>(id));
    structure.push_back(node.outputs.size());
    for (const graph::ValueId id : node.outputs) structure.push_back(static_cast<std::size_t>(id));
  }
  return structure;
}

/// The passes in the order that lets each do the most, on a graph of their own. Fusing makes some
/// values live longer, and memory is predicted for the graph as it was: a pass that would need more
/// is left out, which is rare, so that no copy is kept of what a pass was given.
class Rewriting {
 public:
  Rewriting(const Graph& original, const KernelTable& kernels)
      : original_(original), kernels_(kernels) {}

  /// Returns the bytes of constants that are made.
  std::int64_t run(Graph& graph) {
    while (!try_all()) continue;
    graph = std::move(graph_);
    return bytes_;
  }

 private:
  /// False where one more must be left out: then all begins anew.
  bool try_all() {
    graph_ = original_;
    structure_ = structure_of(graph_);
    bytes_ = 0;
    const std::int64_t limit = std::max(graph::plan_arena(graph::value_lifetimes(graph_)).bytes,
                                        planned_bytes(graph_, kernels_));
    // Before folding, which would unpack small weights and copy transposed ones.
    for (const Pass pass : {fuse_quantized_products, fuse_transposes})
      if (!apply_within(limit, pass)) return false;
    const std::int64_t bound = graph::arena_bound(graph_);
    if (folds_ && !fold_within(bound)) return false;
    bytes_ += fold_channel_scales(graph_, kernels_);
    clean();
    for (const Pass pass :
         {drop_identities, fuse_gathered_products, fuse_normalizations, fuse_activations,
          fuse_rotary_embeddings, fuse_attention, fuse_masked_softmax, fuse_biases,
          fuse_product_activations, fuse_permutations, fuse_elementwise_chains})
      if (!apply_within(std::min(limit, bound - bytes_), pass)) return false;
    return true;
  }

  bool apply_within(std::int64_t limit, Pass pass) {
    if (left_out_.contains(pass)) return true;
    pass(graph_, kernels_);
    if (structure_of(graph_) == structure_) return true;
    clean();
    if (planned_bytes(graph_, kernels_) <= limit) return true;
    left_out_.insert(pass);
    return false;
  }

  /// Folded constants take memory of their own, for the whole run: nothing is folded where that
  /// would be more than the arena may take.
  bool fold_within(std::int64_t limit) {
    bytes_ = fold_constants(graph_);
    clean();
    if (bytes_ + planned_bytes(graph_, kernels_) <= limit) return true;
    folds_ = false;
    return false;
  }

  void clean() {
    graph::remove_dead_nodes(graph_);
    structure_ = structure_of(graph_);
  }

  const Graph& original_;
  const KernelTable& kernels_;
  Graph graph_;
  std::int64_t bytes_ = 0;
  std::vector<std::size_t> structure_;  ///< when it was cleaned last
  std::set<Pass> left_out_;
  bool folds_ = true;
};

}  // namespace

std::int64_t optimize(Graph& graph, const KernelTable& kernels, Rewrites rewrites) {
  const bool can_group = kernels.find(internal_domain, "CollectiveGroup") != nullptr;
  if (rewrites.group_collectives && can_group) group_collectives(graph);
  return rewrites.fuse ? Rewriting(graph, kernels).run(graph) : 0;
}

}  // namespace autopar::runtime::passes
