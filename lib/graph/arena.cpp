#include "graph/arena.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include "graph/derived_constants.h"
#include "graph/loop_body.h"

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

std::int64_t bound(const Graph& graph, int microbatches) {
  std::vector<BufferLifetime> lifetimes = value_lifetimes(graph);
  const auto bytes = [&](ValueId id) {
    return bytes_of(graph.value(id).type, num_elements(graph.value(id).shape));
  };
  // The caller writes an input even where no node reads it.
  for (const ValueId input : graph.inputs)
    lifetimes[static_cast<std::size_t>(input)].bytes = bytes(input);
  const std::vector<int> slots = value_slots(graph, microbatches);
  std::int64_t in_slots = 0;
  for (std::size_t v = 0; v < slots.size(); ++v) {
    if (slots[v] == 0) continue;
    in_slots += slots[v] * aligned(bytes(static_cast<ValueId>(v)));
    lifetimes[v].bytes = 0;
  }
  constexpr std::int64_t page = 4096;
  return with_arena_slack(plan_arena(lifetimes).bytes) + page + in_slots + bodies_bound(graph) +
         derived_constant_bytes(graph);
}

}  // namespace

std::int64_t aligned(std::int64_t bytes) {
  constexpr std::int64_t alignment = 64;
  return (bytes + alignment - 1) / alignment * alignment;
}

ArenaPlan plan_arena(std::span<const BufferLifetime> buffers) {
  std::vector<std::size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, {}, [&](std::size_t i) {
    return std::tuple(-buffers[i].bytes, buffers[i].first, buffers[i].last);
  });

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
  for (const State& state : graph.states) live_at(graph.inputs[state.input], last_step);
  for (const ValueId input : graph.inputs) result[static_cast<std::size_t>(input)].first = 0;
  return result;
}

std::int64_t bodies_bound(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const Node& node : graph.nodes)
    if (node.body) bytes += arena_bound(body_to_run(graph, node));
  return bytes;
}

std::int64_t arena_bound(const Graph& graph) { return bound(graph, 1); }

std::vector<int> value_slots(const Graph& graph, int microbatches) {
  std::vector<int> slots(graph.values.size());
  if (microbatches == 1) return slots;
  const auto want = [&](ValueId id, int count) {
    if (graph.is_constant(id)) return;
    int& of_value = slots[static_cast<std::size_t>(id)];
    of_value = std::max(of_value, count);
  };
  for (const ValueId id : graph.inputs) want(id, microbatches);
  for (const ValueId id : graph.outputs) want(id, microbatches);
  for (const Node& node : graph.nodes) {
    if (node.domain != collective_domain) continue;
    if (node.op_type == "Recv") want(node.outputs[0], 2);
    if (node.op_type == "Send") want(node.inputs[0], 2);
  }
  return slots;
}

std::int64_t slot_bytes(const Graph& graph, int microbatches) {
  return std::max<std::int64_t>(0, bound(graph, microbatches) - bound(graph, 1));
}

}  // namespace autopar::graph
