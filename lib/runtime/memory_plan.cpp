#include "runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace autopar::runtime {
namespace {

bool is_one_of(const std::vector<graph::ValueId>& ids, graph::ValueId id) {
  return std::ranges::find(ids, id) != ids.end();
}

}  // namespace

Storage alias_views(const graph::Graph& graph, const KernelTable& kernels) {
  Storage storage{std::vector<graph::ValueId>(graph.values.size())};
  std::iota(storage.roots.begin(), storage.roots.end(), 0);
  for (const graph::Node& node : graph.nodes) {
    const KernelEntry* entry = kernels.find(node.domain, node.op_type);
    const auto left_out = std::ranges::count(node.outputs, graph::no_value);
    const bool has_one_output = std::ssize(node.outputs) - left_out == 1;
    if (entry == nullptr || !entry->is_view || !has_one_output) continue;
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
  for (std::size_t v = 0; v < apart.elsewhere.size(); ++v)
    if (apart.elsewhere[v]) lifetimes[v].bytes = 0;
  std::vector<ValuePlace> places(values);
  const auto root_place = [&](std::size_t v) -> ValuePlace& {
    return places[static_cast<std::size_t>(storage.root(static_cast<graph::ValueId>(v)))];
  };
  for (std::size_t v = 0; v < apart.slots.size(); ++v)
    root_place(v).slots = std::max(root_place(v).slots, apart.slots[v]);
  for (std::size_t v = 0; v < values; ++v) {
    if (places[v].slots == 0 || graph.is_constant(static_cast<graph::ValueId>(v))) continue;
    places[v].slot_bytes = graph::aligned(lifetimes[v].bytes);
    lifetimes[v].bytes = 0;
  }
  graph::ArenaPlan arena = graph::plan_arena(lifetimes);
  const std::int64_t packed_without_scratch = arena.bytes;
  const auto scratch_queue = [&](std::size_t step) {
    return apart.scratch.empty() ? Queue::computation : apart.scratch[step];
  };
  for (std::size_t step = 0; step < scratch_bytes.size(); ++step) {
    const Queue queue = scratch_queue(step);
    const bool is_apart = queue == Queue::receive || queue == Queue::send;
    const int time = static_cast<int>(step);
    lifetimes.push_back({is_apart ? 0 : scratch_bytes[step], time, time});
  }
  const bool has_scratch = std::ranges::any_of(scratch_bytes, [](auto bytes) { return bytes > 0; });
  if (has_scratch) arena = graph::plan_arena(lifetimes);
  arena.offsets.resize(lifetimes.size());

  // Behind what is packed: slots, then the scratch memory of each of the two queues.
  std::int64_t end = graph::aligned(arena.bytes);
  const std::int64_t begin_of_slots = end;
  for (std::size_t v = 0; v < values; ++v) {
    places[v].offset = places[v].slots == 0 ? arena.offsets[v] : end;
    end += places[v].slots * places[v].slot_bytes;
  }
  const std::int64_t bytes_of_slots = end - begin_of_slots;
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
  for (std::size_t v = 0; v < values; ++v) plan.values.push_back(root_place(v));
  plan.arena_bytes = end;
  plan.bytes_without_scratch = packed_without_scratch + bytes_of_slots;
  return plan;
}

}  // namespace autopar::runtime
