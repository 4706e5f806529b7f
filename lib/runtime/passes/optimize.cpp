#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "base/work_signs.h"
#include "runtime/memory_plan.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using PassFunction = void (*)(Graph&, const KernelTable&, ConstantStore*);

/// One that makes no large constant.
template <void (*pass)(Graph&, const KernelTable&)>
void without_store(Graph& graph, const KernelTable& kernels, ConstantStore*) {
  pass(graph, kernels);
}

constexpr PassFunction before_folding[] = {fuse_quantized_products, without_store<fuse_transposes>};

std::vector<PassFunction> behind_folding(const Rewrites& rewrites) {
  return {without_store<drop_identities>,
          without_store<fuse_gathered_products>,
          without_store<fuse_normalizations>,
          without_store<fuse_group_normalizations>,
          without_store<fuse_activations>,
          without_store<move_relus_behind_maxima>,
          rewrites.move_collectives ? without_store<move_channels_last>
                                    : without_store<move_channels_last_within_rank>,
          without_store<fuse_convolutions>,
          without_store<fuse_rotary_embeddings>,
          without_store<fuse_attention>,
          without_store<fuse_masked_softmax>,
          without_store<fuse_biases>,
          without_store<fuse_product_activations>,
          without_store<fuse_permutations>,
          without_store<fuse_elementwise_chains>};
}

/// Memory of the values, those that kernels alias in the memory of what they view.
std::int64_t planned_bytes(const Graph& graph, const KernelTable& kernels) {
  const std::vector<std::int64_t> no_scratch(graph.nodes.size());
  return plan_memory(graph, alias_views(graph, kernels), no_scratch).arena_bytes;
}

/// The nodes' operators, inputs and outputs, which decide how long values live.
std::vector<std::size_t> structure_of(const Graph& graph) {
  std::vector<std::size_t> structure;
  for (const Node& node : graph.nodes) {
    structure.push_back(std::hash<std::string>{}(node.op_type));
    for (const std::vector<ValueId>* ids : {&node.inputs, &node.outputs}) {
      structure.push_back(ids->size());
      structure.insert(structure.end(), ids->begin(), ids->end());
    }
  }
  return structure;
}

/// Passes that would need more memory than there may be.
struct LeftOut {
  std::set<PassFunction> fusions;
  bool folding = false;
};

/// When a rewriting is held against the memory that there may be, which takes longer than most
/// passes do.
enum class Checked { at_end, behind_each_pass };

/// A graph of its own as passes rewrite it.
struct Rewriting {
  const KernelTable& kernels;
  const Rewrites& rewrites;
  ConstantStore* store;
  LeftOut& left_out;
  Checked checked;
  Graph graph;
  std::int64_t bytes = 0;                                    ///< of constants that are made
  std::vector<std::size_t> structure = structure_of(graph);  ///< when it was cleaned last

  void clean() {
    graph::remove_dead_nodes(graph);
    structure = structure_of(graph);
  }

  bool is_within(std::int64_t limit) const { return planned_bytes(graph, kernels) <= limit; }

  /// False where the pass is seen to need more: then it is left out from now on.
  bool apply_within(std::int64_t limit, PassFunction pass) {
    if (left_out.fusions.contains(pass)) return true;
    note_work();
    pass(graph, kernels, store);
    if (structure_of(graph) == structure) return true;
    clean();
    if (checked == Checked::at_end || is_within(limit)) return true;
    left_out.fusions.insert(pass);
    return false;
  }

  /// Folded constants take memory of their own, for the whole run: nothing is folded where that
  /// would be more than the arena may take.
  bool fold_within(std::int64_t limit) {
    if (left_out.folding) return true;
    bytes = fold_constants(graph, store);
    clean();
    left_out.folding = checked == Checked::behind_each_pass && !is_within(limit - bytes);
    return !left_out.folding;
  }

  /// The passes in the order that lets each do the most. False where all together need more, or,
  /// each being checked, one more must be left out.
  bool apply_all() {
    const std::int64_t bound = graph::arena_bound(graph);
    const std::int64_t limit = std::max(graph::plan_arena(graph::value_lifetimes(graph)).bytes,
                                        planned_bytes(graph, kernels));
    // Before folding, which would unpack small weights and copy transposed ones.
    for (const PassFunction pass : before_folding)
      if (!apply_within(limit, pass)) return false;
    if (!fold_within(bound)) return false;
    bytes += fold_channel_scales(graph, kernels, store);
    clean();
    const std::int64_t left = std::min(limit, bound - bytes);
    for (const PassFunction pass : behind_folding(rewrites))
      if (!apply_within(left, pass)) return false;
    return checked == Checked::behind_each_pass || is_within(left);
  }
};

/// Fusing makes some values live longer, and memory is predicted for the graph as it was: a pass
/// that would need more is left out, and all begins anew, which is rare, so that no copy is kept
/// of what a pass was given. Returns the bytes of constants that are made.
std::int64_t fuse(Graph& graph, const KernelTable& kernels, const Rewrites& rewrites,
                  ConstantStore* store) {
  LeftOut left_out;
  for (Checked checked = Checked::at_end;; checked = Checked::behind_each_pass) {
    Rewriting rewriting{kernels, rewrites, store, left_out, checked, graph};
    if (!rewriting.apply_all()) continue;
    graph = std::move(rewriting.graph);
    return rewriting.bytes;
  }
}

}  // namespace

std::int64_t optimize(Graph& graph, const KernelTable& kernels, Rewrites rewrites,
                      ConstantStore* store) {
  const bool can_group = kernels.find(internal_domain, "CollectiveGroup") != nullptr;
  if (rewrites.group_collectives && can_group) group_collectives(graph);
  return rewrites.fuse ? fuse(graph, kernels, rewrites, store) : 0;
}

}  // namespace autopar::runtime::passes
