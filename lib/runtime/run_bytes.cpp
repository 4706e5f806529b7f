#include "runtime/run_bytes.h"

#include <algorithm>
#include <utility>

#include "base/in_parallel.h"
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

/// The graph with a type and a shape alone in the place of each large weight, which is all that
/// passes look at. Nothing that they do then takes the time to read a model's weights.
Graph without_large_weights(const Graph& graph) {
  Graph without = graph;
  for (graph::Value& value : without.values)
    if (is_large_weight(value)) value.constant = graph::Tensor::absent(value.type, value.shape);
  return without;
}

bool can_group_collectives(Graph graph, const KernelTable& kernels) {
  passes::optimize(graph, kernels, {.fuse = false, .group_collectives = true});
  return passes::has_collective_groups(graph);
}

/// For the bodies of loops, each an Executable of its own.
std::int64_t bytes_of_bodies(const Graph& graph, const KernelTable& kernels) {
  std::int64_t bytes = 0;
  for (const graph::Node& node : graph.nodes)
    if (node.body) bytes += packed_graph(graph::body_to_run(graph, node), kernels, 1).bytes;
  return bytes;
}

Graph rewritten_for_run(const Graph& graph, const KernelTable& kernels) {
  Graph rewritten = without_large_weights(graph);
  passes::optimize(rewritten, kernels, {.fuse = true, .group_collectives = false});
  graph::remove_dead_nodes(rewritten);
  return rewritten;
}

ValueNames output_names(const Graph& graph) {
  ValueNames names;
  for (const graph::Node& node : graph.nodes)
    for (const graph::ValueId id : node.outputs)
      if (id != graph::no_value) names.insert(graph.value(id).name);
  return names;
}

}  // namespace

PackedGraph packed_graph(const Graph& graph, const KernelTable& kernels, int microbatches,
                         const ValueNames& elsewhere) {
  const std::int64_t bound = graph::arena_bound(graph) + graph::slot_bytes(graph, microbatches);
  const Graph light = without_large_weights(graph);
  const auto pack = [&](passes::Rewrites rewrites) {
    PackedGraph packed{.graph = light, .lifetimes = {}};
    packed.bytes = passes::optimize(packed.graph, kernels, rewrites);
    const Storage storage = alias_views(packed.graph, kernels);
    Apart apart;
    if (microbatches > 1) apart.slots = graph::value_slots(packed.graph, microbatches);
    apart.elsewhere.resize(packed.graph.values.size());
    for (const graph::ValueId input : packed.graph.inputs)
      apart.elsewhere[static_cast<std::size_t>(input)] =
          elsewhere.contains(packed.graph.value(input).name);
    const std::vector<std::int64_t> no_scratch(packed.graph.nodes.size());
    packed.lifetimes = root_lifetimes(packed.graph, storage);
    packed.bytes += plan_memory(packed.graph, storage, no_scratch, apart).arena_bytes +
                    bytes_of_bodies(packed.graph, kernels);
    return packed;
  };
  // Whether collectives move images with their channels last, or go out in groups, all ranks agree
  // on: what is no good on some rank, perhaps another one, is left by all.
  std::vector<passes::Rewrites> ways = {{.group_collectives = false}};
  if (passes::may_move_collectives(light, kernels))
    ways.push_back({.group_collectives = false, .move_collectives = false});
  if (can_group_collectives(light, kernels)) ways.push_back({.group_collectives = true});
  std::vector<PackedGraph> packed(ways.size());
  in_parallel(ways.size(), [&](std::size_t way) {
    packed[way] = pack(ways[way]);
    if (packed[way].bytes <= bound) return;
    packed[way] = ways[way].group_collectives ? PackedGraph()
                                              : pack({.fuse = false, .group_collectives = false});
  });
  return std::move(*std::ranges::max_element(packed, {}, &PackedGraph::bytes));
}

PackedGraph packed_graph(const Graph& graph, std::span<const KernelTable* const> devices,
                         int microbatches, const ValueNames& elsewhere) {
  std::vector<PackedGraph> by_device;
  for (const KernelTable* kernels : devices)
    by_device.push_back(packed_graph(graph, *kernels, microbatches, elsewhere));
  return std::move(*std::ranges::max_element(by_device, {}, &PackedGraph::bytes));
}

ValueNames fused_values(const Graph& graph, const KernelTable& kernels) {
  ValueNames gone = output_names(graph);
  for (const std::string& made : output_names(rewritten_for_run(graph, kernels))) gone.erase(made);
  return gone;
}

ValueNames values_without_memory(const Graph& graph, const KernelTable& kernels) {
  const Graph rewritten = rewritten_for_run(graph, kernels);
  const Storage storage = alias_views(rewritten, kernels);
  ValueNames without = output_names(graph);
  for (std::size_t v = 0; v < rewritten.values.size(); ++v) {
    const auto id = static_cast<graph::ValueId>(v);
    if (storage.root(id) == id) without.erase(rewritten.value(id).name);
  }
  return without;
}

ValueNames channels_last_values(const Graph& graph, const KernelTable& kernels) {
  Graph moved = without_large_weights(graph);
  // Written-out group normalization is moved once it is one operator; what else is fused before in
  // a run computes on each element or channel by itself, whether fused or not.
  passes::fold_constants(moved);
  passes::fuse_group_normalizations(moved, kernels);
  passes::move_channels_last(moved, kernels);
  const auto is_reorder = [](const graph::Node& node) {
    return node.op_type == "Transpose" || node.op_type == "Reshape";
  };
  std::erase_if(moved.nodes, is_reorder);
  const ValueNames made = output_names(moved);
  ValueNames are_last = output_names(graph);
  std::erase_if(are_last, [&](const std::string& name) {
    return !made.contains(name + passes::channels_last_suffix);
  });
  return are_last;
}

}  // namespace autopar::runtime
