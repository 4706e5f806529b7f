#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "graph/arena.h"

namespace autopar::runtime {
namespace {

/// One lifetime a root: from the first to the last of the values that share its bytes.
std::vector<graph::BufferLifetime> root_lifetimes(const graph::Graph& graph,
                                                  const Storage& storage) {
  std::vector<graph::BufferLifetime> lifetimes = graph::value_lifetimes(graph);
  for (const graph::ValueId input : graph.inputs) {
    // The caller writes an input even if no node reads it.
    auto& lifetime = lifetimes[static_cast<std::size_t>(input)];
    const graph::Value& value = graph.value(input);
    lifetime.bytes = graph::bytes_of(value.type, graph::num_elements(value.shape));
  }
  for (std::size_t v = 0; v < lifetimes.size(); ++v) {
    const auto root = static_cast<std::size_t>(storage.root(static_cast<graph::ValueId>(v)));
    if (root == v) continue;
    lifetimes[root].first = std::min(lifetimes[root].first, lifetimes[v].first);
    lifetimes[root].last = std::max(lifetimes[root].last, lifetimes[v].last);
    lifetimes[v].bytes = 0;
  }
  return lifetimes;
}

}  // namespace

Storage::Storage(const graph::Graph& graph) : roots_(graph.values.size()) {
  std::iota(roots_.begin(), roots_.end(), 0);
}

void Storage::alias(graph::ValueId view, graph::ValueId source) {
  roots_[static_cast<std::size_t>(view)] = root(source);
}

MemoryPlan plan_memory(const graph::Graph& graph, const Storage& storage,
                       std::span<const std::int64_t> scratch_bytes) {
  std::vector<graph::BufferLifetime> lifetimes = root_lifetimes(graph, storage);
  const std::int64_t bytes_without_scratch = graph::plan_arena(lifetimes).bytes;
  for (std::size_t step = 0; step < scratch_bytes.size(); ++step)
    lifetimes.push_back({scratch_bytes[step], static_cast<int>(step), static_cast<int>(step)});
  graph::ArenaPlan arena = graph::plan_arena(lifetimes);

  MemoryPlan plan;
  const auto first_scratch =
      arena.offsets.begin() + static_cast<std::ptrdiff_t>(graph.values.size());
  plan.scratch_offsets.assign(first_scratch, arena.offsets.end());
  plan.value_offsets.assign(arena.offsets.begin(), first_scratch);
  for (std::size_t v = 0; v < plan.value_offsets.size(); ++v)
    plan.value_offsets[v] =
        arena.offsets[static_cast<std::size_t>(storage.root(static_cast<graph::ValueId>(v)))];
  plan.arena_bytes = arena.bytes;
  plan.bytes_without_scratch = bytes_without_scratch;
  return plan;
}

}  // namespace autopar::runtime
