#include "runtime/fused_values.h"

#include "runtime/passes/passes.h"

namespace autopar::runtime {

std::set<std::string, std::less<>> fused_values(const graph::Graph& graph,
                                                const KernelTable& kernels) {
  graph::Graph rewritten = graph;
  passes::optimize(rewritten, kernels, {.fuse = true, .group_collectives = false});
  graph::remove_dead_nodes(rewritten);
  std::set<std::string, std::less<>> gone;
  const auto for_each_output = [](const graph::Graph& of, const auto& visit) {
    for (const graph::Node& node : of.nodes) {
      for (const graph::ValueId id : node.outputs) {
        if (id != graph::no_value) visit(of.value(id).name);
      }
    }
  };
  for_each_output(graph, [&](const std::string& name) { gone.insert(name); });
  for_each_output(rewritten, [&](const std::string& name) { gone.erase(name); });
  return gone;
}

}  // namespace autopar::runtime
