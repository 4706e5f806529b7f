#include "runtime/fused_values.h"

#include "runtime/memory_plan.h"
#include "runtime/passes/passes.h"
#include "runtime/run_bytes.h"

namespace autopar::runtime {
namespace {

using Names = std::set<std::string, std::less<>>;

graph::Graph rewritten_for_run(const graph::Graph& graph, const KernelTable& kernels) {
  graph::Graph rewritten = without_large_weights(graph);
  passes::optimize(rewritten, kernels, {.fuse = true, .group_collectives = false});
  graph::remove_dead_nodes(rewritten);
  return rewritten;
}

Names output_names(const graph::Graph& graph) {
  Names names;
  for (const graph::Node& node : graph.nodes)
    for (const graph::ValueId id : node.outputs)
      if (id != graph::no_value) names.insert(graph.value(id).name);
  return names;
}

}  // namespace

Names fused_values(const graph::Graph& graph, const KernelTable& kernels) {
  Names gone = output_names(graph);
  for (const std::string& made : output_names(rewritten_for_run(graph, kernels))) gone.erase(made);
  return gone;
}

Names values_without_memory(const graph::Graph& graph, const KernelTable& kernels) {
  const graph::Graph rewritten = rewritten_for_run(graph, kernels);
  const Storage storage = alias_views(rewritten, kernels);
  Names without = output_names(graph);
  for (std::size_t v = 0; v < rewritten.values.size(); ++v) {
    const auto id = static_cast<graph::ValueId>(v);
    if (storage.root(id) == id) without.erase(rewritten.value(id).name);
  }
  return without;
}

}  // namespace autopar::runtime
