#include "program/memory_peak.h"

#include <algorithm>
#include <numeric>

#include "graph/arena.h"

namespace autopar::program {

namespace {

using graph::BufferLifetime;

/// Bytes alive at each step.
std::vector<std::int64_t> usage_by_step(const std::vector<BufferLifetime>& lifetimes,
                                        std::size_t steps) {
  std::vector<std::int64_t> usage(steps + 1, 0);
  for (const BufferLifetime& buffer : lifetimes) {
    if (buffer.bytes == 0) continue;
    usage[buffer.first] += buffer.bytes;
    usage[static_cast<std::size_t>(buffer.last) + 1] -= buffer.bytes;
  }
  std::inclusive_scan(usage.begin(), usage.end(), usage.begin());
  usage.pop_back();
  return usage;
}

std::vector<MemoryPeak::Buffer> alive_at(int step, const graph::Graph& graph,
                                         const std::vector<BufferLifetime>& lifetimes) {
  std::vector<MemoryPeak::Buffer> alive;
  for (std::size_t id = 0; id < lifetimes.size(); ++id) {
    const BufferLifetime& buffer = lifetimes[id];
    if (buffer.bytes == 0 || step < buffer.first || step > buffer.last) continue;
    alive.push_back({graph.values[id].name, graph.values[id].shape, buffer.bytes});
  }
  std::ranges::stable_sort(alive, std::ranges::greater{}, &MemoryPeak::Buffer::bytes);
  return alive;
}

}  // namespace

MemoryPeak find_memory_peak(const RunGraph& run, std::size_t most_listed) {
  MemoryPeak peak;
  peak.weight_bytes = run.predicted.weight_bytes;
  if (!run.graph.nodes.empty()) {
    const auto usage = usage_by_step(run.lifetimes, run.graph.nodes.size());
    const auto step = std::ranges::max_element(usage) - usage.begin();
    const graph::Node& node = run.graph.nodes[step];
    peak.node = node.name;
    peak.op_type = qualified_op_type(node);
    peak.activation_bytes = usage[step];
    peak.largest = alive_at(static_cast<int>(step), run.graph, run.lifetimes);
    peak.largest.resize(std::min(peak.largest.size(), most_listed));
  }
  peak.reserve_bytes = run.predicted.peak_bytes - peak.weight_bytes - peak.activation_bytes;
  return peak;
}

}  // namespace autopar::program
