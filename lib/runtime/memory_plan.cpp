#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace autopar::runtime {
namespace {

bool is_one_of(const std::vector<graph::ValueId>& ids, graph::ValueId id) {
  return std::ranges::find(ids, id) != ids.end();
}

bool has_one_output(const graph::Node& node) {
  return std::ranges::count_if(node.outputs,
                               [](graph::ValueId id) { return id != graph::no_value; }) == 1;
}

}  // namespace

Storage alias_views(const graph::Graph& graph, const KernelTable& kernels) {
  Storage storage{std::vector<graph::ValueId>(graph.values.size())};
  std::iota(storage.roots.begin(), storage.roots.end(), 0);
  for (const graph::Node& node : graph.nodes) {
    const KernelEntry* entry = kernels.find(node.domain, node.op_type);
    if (entry == nullptr || !entry->is_view || !has_one_output(node)) continue;
    const graph::ValueId root = storage.root(node.inputs[0]);
    const bool is_given = graph.is_constant(root) || is_one_of(graph.inputs, root);
    if (is_given && is_one_of(graph.outputs, node.outputs[0])) continue;
    storage.roots[static_cast<std::size_t>(node.outputs[0])] = root;
  }
  return storage;
}

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

MemoryPlan plan_memory(const graph::Graph& graph, const Storage& storage,
                       std::span<const std::int64_t> scratch_bytes, const Apart& apart) {
  std::vector<graph::BufferLifetime> lifetimes = root_lifetimes(graph, storage);
  const std::size_t values = graph.values.size();
  std::vector<int> slots(values, 0);
  std::vector<std::int64_t> slot_bytes(values, 0);
  for (std::size_t v = 0; v < apart.slots.size(); ++v) {
    int& of_root = slots[static_cast<std::size_t>(storage.root(static_cast<graph::ValueId>(v)))];
    of_root = std::max(of_root, apart.slots[v]);
  }
  for (std::size_t v = 0; v < values; ++v) {
    if (slots[v] == 0 || graph.is_constant(static_cast<graph::ValueId>(v))) continue;
    slot_bytes[v] = graph::aligned(lifetimes[v].bytes);
    lifetimes[v].bytes = 0;
  }
  const std::int64_t packed_without_scratch = graph::plan_arena(lifetimes).bytes;
  const auto scratch_queue = [&](std::size_t step) {
    return apart.scratch.empty() ? Queue::computation : apart.scratch[step];
  };
  const auto is_apart = [&](std::size_t step) {
    return scratch_queue(step) == Queue::receive || scratch_queue(step) == Queue::send;
  };
  for (std::size_t step = 0; step < scratch_bytes.size(); ++step)
    lifetimes.push_back(
        {is_apart(step) ? 0 : scratch_bytes[step], static_cast<int>(step), static_cast<int>(step)});
  graph::ArenaPlan arena = graph::plan_arena(lifetimes);

  // Behind what is packed: slots, then the scratch memory of each of the two queues.
  std::int64_t end = graph::aligned(arena.bytes);
  std::int64_t bytes_of_slots = 0;
  for (std::size_t v = 0; v < values; ++v) {
    if (slots[v] == 0) continue;
    arena.offsets[v] = end + bytes_of_slots;
    bytes_of_slots += slots[v] * slot_bytes[v];
  }
  end += bytes_of_slots;
  for (const Queue queue : {Queue::receive, Queue::send}) {
    std::int64_t most = 0;
    for (std::size_t step = 0; step < scratch_bytes.size(); ++step) {
      if (scratch_queue(step) != queue) continue;
      arena.offsets[values + step] = end;
      most = std::max(most, graph::aligned(scratch_bytes[step]));
    }
    end += most;
  }

  MemoryPlan plan;
  const auto first_scratch = arena.offsets.begin() + static_cast<std::ptrdiff_t>(values);
  plan.scratch_offsets.assign(first_scratch, arena.offsets.end());
  plan.slots.resize(values);
  for (std::size_t v = 0; v < values; ++v) {
    const auto root = static_cast<std::size_t>(storage.root(static_cast<graph::ValueId>(v)));
    plan.value_offsets.push_back(arena.offsets[root]);
    plan.slots[v] = std::max(1, slots[root]);
    plan.slot_bytes.push_back(slot_bytes[root]);
  }
  plan.arena_bytes = end;
  plan.bytes_without_scratch = packed_without_scratch + bytes_of_slots;
  return plan;
}

}  // namespace autopar::runtime
