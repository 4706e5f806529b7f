#include "runtime/run_bytes.h"

#include <utility>

#include "graph/loop_body.h"
#include "runtime/memory_plan.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using graph::Graph;

/// Smaller ones may be masks, scales or shapes, which passes look at.
constexpr std::int64_t largest_read_bytes = 1 << 16;

bool is_large_weight(const graph::Value& value) {
  const DataType type = value.type;
  const bool is_of_weights = graph::is_floating_point(type) || type == DataType::int8 ||
                             type == DataType::uint8 || graph::bits_of(type) < 8;
  return value.constant && is_of_weights && value.constant->size_bytes() > largest_read_bytes;
}

/// For the bodies of loops, each an Executable of its own.
std::int64_t bytes_of_bodies(const Graph& graph, const KernelTable& kernels) {
  std::int64_t bytes = 0;
  for (const graph::Node& node : graph.nodes)
    if (node.body) bytes += packed_graph(graph::body_to_run(graph, node), kernels, 1).bytes;
  return bytes;
}

PackedGraph packed(Graph graph, const KernelTable& kernels, int microbatches,
                   passes::Rewrites rewrites) {
  PackedGraph result;
  const std::int64_t folded = passes::optimize(graph, kernels, rewrites);
  const Storage storage = alias_views(graph, kernels);
  Apart apart;
  if (microbatches > 1) apart.slots = graph::value_slots(graph, microbatches);
  const std::vector<std::int64_t> no_scratch(graph.nodes.size());
  result.lifetimes = root_lifetimes(graph, storage);
  result.bytes = folded + plan_memory(graph, storage, no_scratch, apart).arena_bytes +
                 bytes_of_bodies(graph, kernels);
  result.graph = std::move(graph);
  return result;
}

}  // namespace

Graph without_large_weights(const Graph& graph) {
  Graph without = graph;
  for (graph::Value& value : without.values)
    if (is_large_weight(value)) value.constant = graph::Tensor::absent(value.type, value.shape);
  return without;
}

PackedGraph packed_graph(const Graph& graph, const KernelTable& kernels, int microbatches) {
  const std::int64_t bound = graph::arena_bound(graph) + graph::slot_bytes(graph, microbatches);
  const Graph light = without_large_weights(graph);
  PackedGraph result = packed(light, kernels, microbatches, {});
  if (result.bytes > bound) result = packed(light, kernels, microbatches, {.fuse = false});
  return result;
}

}  // namespace autopar::runtime
