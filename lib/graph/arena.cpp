#include "graph/arena.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace autopar::graph {
namespace {

/// Buffers by when they live. Those that live with a buffer either live at its first step, and a
/// segment tree over steps finds them, or begin after it and until its last.
class LifetimeIndex {
 public:
  explicit LifetimeIndex(std::span<const BufferLifetime> buffers) : buffers_(buffers) {
    int steps = 1;
    for (const BufferLifetime& buffer : buffers) steps = std::max(steps, buffer.last + 1);
    beginning_.resize(static_cast<std::size_t>(steps));
    leaves_ = std::bit_ceil(beginning_.size());
    spanning_.resize(2 * leaves_);
  }

  void add(std::size_t buffer) {
    const auto [bytes, first, last] = buffers_[buffer];
    beginning_[static_cast<std::size_t>(first)].push_back(buffer);
    std::size_t left = leaves_ + static_cast<std::size_t>(first);
    std::size_t right = leaves_ + static_cast<std::size_t>(last) + 1;
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) spanning_[left++].push_back(buffer);
      if (right % 2 == 1) spanning_[--right].push_back(buffer);
    }
  }

  /// The buffers that were added and live when this one does, in no order.
  std::vector<std::size_t> living_with(std::size_t buffer) const {
    std::vector<std::size_t> result;
    const auto take = [&](const std::vector<std::size_t>& found) {
      result.insert(result.end(), found.begin(), found.end());
    };
    const auto first = static_cast<std::size_t>(buffers_[buffer].first);
    const auto last = static_cast<std::size_t>(buffers_[buffer].last);
    for (std::size_t node = leaves_ + first; node > 0; node /= 2) take(spanning_[node]);
    for (std::size_t step = first + 1; step <= last; ++step) take(beginning_[step]);
    return result;
  }

 private:
  std::span<const BufferLifetime> buffers_;
  std::vector<std::vector<std::size_t>> beginning_;  // by first step
  std::size_t leaves_ = 0;
  std::vector<std::vector<std::size_t>> spanning_;  // by the tree's node: live in all its steps
};

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
  LifetimeIndex placed(buffers);
  for (const std::size_t i : by_size) {
    const std::int64_t bytes = aligned(buffers[i].bytes);
    if (bytes == 0) break;  // the rest is empty as well
    std::int64_t offset = 0;
    std::vector<std::size_t> others = placed.living_with(i);
    std::ranges::sort(others, {}, [&](std::size_t other) { return plan.offsets[other]; });
    for (const std::size_t other : others) {
      if (plan.offsets[other] >= offset + bytes) break;
      offset = std::max(offset, plan.offsets[other] + aligned(buffers[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + bytes);
    placed.add(i);
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

std::int64_t slot_bytes(const Graph& graph, int microbatches) {
  if (microbatches == 1) return 0;
  std::map<ValueId, std::int64_t> further;  // places
  for (const Node& node : graph.nodes) {
    if (node.domain != collective_domain) continue;
    if (node.op_type == "Recv") further[node.outputs.front()] = 1;
    if (node.op_type == "Send") further[node.inputs.front()] = 1;
  }
  for (const auto* ports : {&graph.inputs, &graph.outputs})
    for (const ValueId id : *ports) further[id] = microbatches - 1;
  std::int64_t bytes = 0;
  for (const auto& [id, places] : further) {
    const Value& value = graph.value(id);
    if (!value.constant) bytes += places * aligned(bytes_of(value.type, num_elements(value.shape)));
  }
  return bytes;
}

}  // namespace autopar::graph
