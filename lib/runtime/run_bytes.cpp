#include "runtime/run_bytes.h"

#include <algorithm>
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
  const auto pack = [&](passes::Rewrites rewrites) {
    PackedGraph packed{.graph = light, .lifetimes = {}};
    packed.bytes = passes::optimize(packed.graph, kernels, rewrites);
    const Storage storage = alias_views(packed.graph, kernels);
    Apart apart;
    if (microbatches > 1) apart.slots = graph::value_slots(packed.graph, microbatches);
    const std::vector<std::int64_t> no_scratch(packed.graph.nodes.size());
    packed.lifetimes = root_lifetimes(packed.graph, storage);
    packed.bytes += plan_memory(packed.graph, storage, no_scratch, apart).arena_bytes +
                    bytes_of_bodies(packed.graph, kernels);
    return packed;
  };
  const PackedGraph grouped = pack({});
  const bool has_groups = passes::has_collective_groups(grouped.graph);
  PackedGraph ungrouped = has_groups ? pack({.group_collectives = false}) : grouped;
  if (ungrouped.bytes > bound) ungrouped = pack({.fuse = false, .group_collectives = false});
  // Groups that do not fit on some rank, perhaps another one, are left by all.
  const bool may_be_grouped = has_groups && grouped.bytes <= bound;
  return may_be_grouped && grouped.bytes > ungrouped.bytes ? grouped : ungrouped;
}

PackedGraph packed_graph(const Graph& graph, std::span<const KernelTable* const> devices,
                         int microbatches) {
  std::vector<PackedGraph> by_device;
  for (const KernelTable* kernels : devices)
    by_device.push_back(packed_graph(graph, *kernels, microbatches));
  return std::move(*std::ranges::max_element(by_device, {}, &PackedGraph::bytes));
}

}  // namespace autopar::runtime
