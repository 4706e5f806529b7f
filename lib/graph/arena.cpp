#include "graph/arena.h"

#include <algorithm>
#include <numeric>

namespace autopar::graph {
namespace {

bool live_together(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

}  // namespace

std::int64_t aligned(std::int64_t bytes) {
  constexpr std::int64_t alignment = 64;
  return (bytes + alignment - 1) / alignment * alignment;
}

ArenaPlan plan_arena(std::span<const BufferLifetime> buffers) {
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::greater<>{},
                           [&](std::size_t i) { return buffers[i].bytes; });

  ArenaPlan plan{std::vector<std::int64_t>(buffers.size(), 0), 0};
  std::vector<std::size_t> placed;  // by offset
  for (const std::size_t i : by_size) {
    const std::int64_t bytes = aligned(buffers[i].bytes);
    if (bytes == 0) break;  // the rest is empty as well
    std::int64_t offset = 0;
    for (const std::size_t other : placed) {
      if (!live_together(buffers[i], buffers[other])) continue;
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + aligned(buffers[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    const auto position = std::ranges::upper_bound(
        placed, offset, {}, [&](std::size_t other) { return plan.offsets[other]; });
    placed.insert(position, i);
  }
  return plan;
}

std::vector<BufferLifetime> value_lifetimes(const Graph& graph) {
  const int last_step = std::max(0, static_cast<int>(graph.nodes.size()) - 1);
  std::vector<BufferLifetime> result(graph.values.size());
  const auto live_at = [&](ValueId id, int step) {
    if (id == no_value || graph.is_constant(id)) return;
    BufferLifetime& lifetime = result[static_cast<std::size_t>(id)];
    if (lifetime.bytes == 0) lifetime.first = lifetime.last = step;
    const Value& value = graph.value(id);
    lifetime.bytes = bytes_of(value.type, num_elements(value.shape));
    lifetime.first = std::min(lifetime.first, step);
    lifetime.last = std::max(lifetime.last, step);
  };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId input : graph.nodes[n].inputs) live_at(input, static_cast<int>(n));
    for (const ValueId output : graph.nodes[n].outputs) live_at(output, static_cast<int>(n));
  }
  for (const ValueId output : graph.outputs) live_at(output, last_step);
  for (const ValueId input : graph.inputs) result[static_cast<std::size_t>(input)].first = 0;
  return result;
}

std::int64_t arena_bound(const Graph& graph) {
  std::vector<BufferLifetime> lifetimes = value_lifetimes(graph);
  for (const ValueId input : graph.inputs) {
    // The caller writes an input even where no node reads it.
    const Value& value = graph.value(input);
    lifetimes[static_cast<std::size_t>(input)].bytes =
        bytes_of(value.type, num_elements(value.shape));
  }
  constexpr std::int64_t page = 4096;
  return with_arena_slack(plan_arena(lifetimes).bytes) + page;
}

}  // namespace autopar::graph
