#include "runtime/executable.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/problems.h"
#include "base/stopwatch.h"
#include "base/work_signs.h"
#include "graph/arena.h"
#include "runtime/collectives.h"
#include "runtime/constant_store.h"
#include "runtime/data_shaped.h"
#include "runtime/devices/cpu_device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/memory_plan.h"
#include "runtime/passes/matcher.h"
#include "runtime/state_buffers.h"

namespace autopar::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::ValueId;

/// Constants up to this size may be read when kernels are made; larger ones are data alone.
constexpr std::int64_t read_when_made_bytes = 1 << 16;

/// Kernels read contiguous, aligned constants; what is copied to a device is aligned there. Returns
/// the bytes of the copies that this takes.
std::int64_t realign_constants(Graph& graph, bool is_copied, ConstantStore* store) {
  std::int64_t copied = 0;
  for (graph::Value& value : graph.values) {
    if (!value.constant) continue;
    if (!value.constant->has_data())
      fail("constant '{}' has no data: is the model's file of weights missing?", value.name);
    const bool may_be_unaligned = is_copied && value.constant->size_bytes() > read_when_made_bytes;
    if (value.constant->is_contiguous() && (may_be_unaligned || value.constant->is_aligned()))
      continue;
    const Tensor stored = *value.constant;
    value.constant =
        derived(store, {"contiguous", {&stored}}, [&] { return stored.contiguous_copy(); });
    copied += value.constant->size_bytes();
  }
  return copied;
}

/// Names all operators that have no kernel, each once.
void require_kernels(const Graph& graph, const KernelTable& kernels) {
  std::map<std::string, std::vector<std::string>> nodes_without;  // by operator
  for (const Node& node : graph.nodes) {
    if (kernels.find(node.domain, node.op_type) == nullptr)
      nodes_without[qualified_op_type(node)].push_back(node.name);
  }
  Problems problems;
  for (const auto& [op_type, nodes] : nodes_without) {
    problems.add("node '{}': operator {} has no {} kernel{}{}", nodes.front(), op_type,
                 kernels.device,
                 nodes.size() > 1 ? fmt::format(" ({} nodes in all)", nodes.size()) : "",
                 kernels.device != cpu_kernels().device ? "; run with --device cpu" : "");
  }
  problems.throw_if_any();
}

using Uses = std::vector<std::shared_ptr<const void>>;

/// Adds a use of each constant of the graph that the store knows.
void use_constants(const Graph& graph, ConstantStore* store, Uses& uses) {
  if (store == nullptr) return;
  for (const graph::Value& value : graph.values)
    if (auto use = value.constant ? store->use(*value.constant) : nullptr)
      uses.push_back(std::move(use));
  std::ranges::sort(uses);
  uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
}

/// A graph as it runs: rewritten, with a kernel for each node and a place for each value.
struct CompiledGraph {
  Graph graph;  ///< keeps the constants alive
  std::int64_t folded_bytes = 0;
  std::int64_t realigned_bytes = 0;
  Storage storage;
  Uses uses = {};                ///< of the store's constants
  std::vector<Step> steps = {};  ///< a step a node, of no microbatch yet; views have no kernel
  OwnMemory of_kernels = {};
  MemoryPlan plan = {};

  std::int64_t arena_bytes() const { return plan.arena_bytes + of_kernels.arena_bytes; }
  std::int64_t bytes_without_scratch() const {
    return plan.bytes_without_scratch + of_kernels.arena_bytes - of_kernels.scratch_bytes;
  }
  /// Null for another value.
  const Tensor* constant(ValueId id) const {
    const ValueId root = id == graph::no_value ? id : storage.root(id);
    return graph.is_constant(root) ? &*graph.value(root).constant : nullptr;
  }
};

/// Only constants have data, which the host can read.
std::vector<TensorView> views_of(const CompiledGraph& compiled, const std::vector<ValueId>& ids) {
  std::vector<TensorView> views;
  for (const ValueId id : ids) {
    TensorView& view = views.emplace_back(passes::view_of(compiled.graph, id));
    // Views are of inputs and outputs alike; no kernel writes to an input.
    if (const Tensor* constant = compiled.constant(id))
      view.data = const_cast<std::byte*>(constant->data());
  }
  return views;
}

/// Loops over rows would run for ever over 2^40 rows of no elements. Collectives, and what fuses
/// them, are made by all ranks, also by one whose share is empty.
bool makes_nothing(const Node& node, std::span<const TensorView> outputs) {
  const auto is_empty = [](const TensorView& view) { return view.elements() == 0; };
  return node.domain != graph::collective_domain && node.domain != passes::internal_domain &&
         !outputs.empty() && std::ranges::all_of(outputs, is_empty);
}

void make_steps(CompiledGraph& compiled, Device& device, CollectiveContext* collectives,
                ConstantStore* store) {
  Graph& graph = compiled.graph;
  require_kernels(graph, device.kernels());
  const auto readers = graph::consumers(graph);
  for (const Node& node : graph.nodes) {
    note_work();
    const KernelEntry& entry = *device.kernels().find(node.domain, node.op_type);
    KernelRequest request{.node = node,
                          .inputs = views_of(compiled, node.inputs),
                          .outputs = views_of(compiled, node.outputs),
                          .device = device,
                          .collectives = collectives,
                          .store = store};
    for (const ValueId id : node.inputs) {
      request.constants.push_back(compiled.constant(id));
      const bool is_output = std::ranges::find(graph.outputs, id) != graph.outputs.end();
      request.is_own.push_back(graph.is_constant(id) && !is_output &&
                               readers[static_cast<std::size_t>(id)].size() == 1);
    }
    Step& step = compiled.steps.emplace_back();
    step.node = node.name;
    step.op_type = node.op_type;
    step.kernel = entry.make(request);
    if (makes_nothing(node, request.outputs)) step.kernel = std::make_unique<NoWork>();
    step.inputs = std::move(request.inputs);
    step.outputs = std::move(request.outputs);
    const Storage& storage = compiled.storage;
    if (entry.is_view && storage.root(node.outputs[0]) == storage.root(node.inputs[0])) {
      step.kernel.reset();
      continue;
    }
    step.scratch_bytes = step.kernel->scratch_bytes();
    const OwnMemory own = step.kernel->own_memory();
    compiled.of_kernels.arena_bytes += own.arena_bytes;
    compiled.of_kernels.scratch_bytes += own.scratch_bytes;
    compiled.of_kernels.derived_bytes += own.derived_bytes;
    if (!device.shares_host_memory()) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (request.is_own[i] && !step.kernel->reads(i))
        graph.value(node.inputs[i]).constant->drop_data();
  }
}

/// What must have memory of its own: states of a session, and what lets microbatches overlap.
Apart apart(const CompiledGraph& compiled, const CompileOptions& options) {
  Apart apart;
  const Graph& graph = compiled.graph;
  if (options.states != nullptr) {
    apart.elsewhere.resize(graph.values.size());
    for (const ValueId input : graph.inputs)
      apart.elsewhere[static_cast<std::size_t>(input)] =
          options.states->place_of(graph, input) != nullptr;
  }
  if (options.microbatches == 1) return apart;
  apart.slots = graph::value_slots(graph, options.microbatches);
  for (const ValueId input : graph.inputs) {
    const bool is_common = std::ranges::find(options.common_inputs, graph.value(input).name) !=
                           options.common_inputs.end();
    const bool leaves = std::ranges::find(graph.outputs, input) != graph.outputs.end();
    if (is_common && !leaves) apart.slots[static_cast<std::size_t>(input)] = 1;
  }
  for (const Step& step : compiled.steps) apart.scratch.push_back(queue_of(step));
  return apart;
}

/// Makes the kernels and plans memory.
CompiledGraph compile(const Graph& original, const CompileOptions& options, Device& device,
                      passes::Rewrites rewrites) {
  ConstantStore* store = options.constants;
  Graph graph = original;
  const std::int64_t folded_bytes = passes::optimize(graph, device.kernels(), rewrites, store);
  const std::int64_t realigned = realign_constants(graph, !device.shares_host_memory(), store);
  Storage storage = alias_views(graph, device.kernels());
  CompiledGraph compiled{std::move(graph), folded_bytes, realigned, std::move(storage)};
  use_constants(original, store, compiled.uses);
  use_constants(compiled.graph, store, compiled.uses);
  make_steps(compiled, device, options.collectives, store);
  std::vector<std::int64_t> scratch;
  for (const Step& step : compiled.steps) scratch.push_back(step.scratch_bytes);
  compiled.plan = plan_memory(compiled.graph, compiled.storage, scratch, apart(compiled, options));
  return compiled;
}

/// Rewrites may keep values longer. Where that breaks the promise of arena_bound, it does without.
CompiledGraph compile_within_bound(const Graph& graph, const CompileOptions& options,
                                   Device& device) {
  require(options.microbatches > 0, "there is a microbatch");
  require(options.states == nullptr || options.microbatches == 1, "states have one microbatch");
  passes::Rewrites rewrites{.fuse = options.optimize, .group_collectives = options.optimize};
  CompiledGraph compiled = compile(graph, options, device, rewrites);
  const auto keeps_promise = [&] {
    return compiled.folded_bytes + compiled.of_kernels.derived_bytes +
               compiled.bytes_without_scratch() <=
           graph::arena_bound(graph) + graph::slot_bytes(graph, options.microbatches);
  };
  // All ranks must send in one order: grouped on all of them or on none.
  if (passes::has_collective_groups(compiled.graph) &&
      !options.collectives->all_agree(keeps_promise())) {
    rewrites.group_collectives = false;
    compiled = compile(graph, options, device, rewrites);
  }
  const auto unfuse_where_broken = [&] {
    if (!rewrites.fuse || keeps_promise()) return;
    rewrites.fuse = false;
    compiled = compile(graph, options, device, rewrites);
  };
  unfuse_where_broken();
  // What sizes and memory let one rank choose, they may not let another one.
  if (passes::may_move_collectives(graph, device.kernels()) &&
      !options.collectives->are_all_alike(passes::digest_of_moved_collectives(compiled.graph))) {
    rewrites.group_collectives = rewrites.move_collectives = false;
    compiled = compile(graph, options, device, rewrites);
    unfuse_where_broken();
  }
  return compiled;
}

/// Where values lie.
struct Memory {
  std::shared_ptr<std::byte> arena;
  std::vector<std::byte*> elsewhere;  ///< by ValueId: constants and states; null for others
};

/// Constants stay where they are, unless there are to be copies of them on the device.
std::vector<std::byte*> place_constants(CompiledGraph& compiled, ConstantStore* copies) {
  const std::vector<graph::Value>& values = compiled.graph.values;
  std::vector<std::byte*> places(values.size());
  std::vector<const Tensor*> copied;
  std::vector<std::size_t> ids;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (!values[v].constant) continue;
    places[v] = const_cast<std::byte*>(values[v].constant->data());
    copied.push_back(&*values[v].constant);
    ids.push_back(v);
  }
  if (copies == nullptr) return places;
  const auto on_device = copies->on_device(copied);
  for (std::size_t i = 0; i < ids.size(); ++i) places[ids[i]] = on_device[i].get();
  compiled.uses.insert(compiled.uses.end(), on_device.begin(), on_device.end());
  return places;
}

/// A microbatch's values where they lie.
struct Places {
  const CompiledGraph& compiled;
  const Memory& memory;
  int microbatch = 0;

  void point(std::vector<TensorView>& views, const std::vector<ValueId>& ids) const {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == graph::no_value) continue;
      const ValueId root = compiled.storage.root(ids[i]);
      std::byte* elsewhere = memory.elsewhere[static_cast<std::size_t>(root)];
      views[i].data = elsewhere != nullptr || compiled.graph.is_constant(root)
                          ? elsewhere
                          : memory.arena.get() + compiled.plan.value_offset(ids[i], microbatch);
    }
  }
  std::vector<TensorView> views_of(const std::vector<ValueId>& ids) const {
    std::vector<TensorView> views = runtime::views_of(compiled, ids);
    point(views, ids);
    return views;
  }
};

/// The microbatch's steps, but views, which run nothing.
void append_steps(const Places& places, std::vector<Step>& placed) {
  const CompiledGraph& compiled = places.compiled;
  for (std::size_t n = 0; n < compiled.steps.size(); ++n) {
    if (compiled.steps[n].kernel == nullptr) continue;
    Step& step = placed.emplace_back(compiled.steps[n]);
    step.microbatch = places.microbatch;
    places.point(step.inputs, compiled.graph.nodes[n].inputs);
    places.point(step.outputs, compiled.graph.nodes[n].outputs);
    step.scratch = places.memory.arena.get() + compiled.plan.scratch_offsets[n];
  }
}

}  // namespace

Executable::Executable(const Graph& graph, const CompileOptions& options)
    : own_device_(options.device ? nullptr : std::make_unique<CpuDevice>(options.threads)),
      device_(options.device ? *options.device : *own_device_),
      collectives_(options.collectives) {
  CompileOptions chosen = options;
  const bool copies_constants = !device_.shares_host_memory();
  if (chosen.constants == nullptr && copies_constants) {
    own_constants_ = std::make_shared<ConstantStore>(device_);
    chosen.constants = own_constants_.get();
  }
  if (chosen.constants != nullptr) chosen.constants->clean();
  CompiledGraph compiled = compile_within_bound(graph, chosen, device_);
  const double uploaded = copies_constants ? chosen.constants->upload_seconds() : 0;
  Memory memory{
      .arena = device_.allocate(graph::aligned(compiled.plan.arena_bytes)),
      .elsewhere = place_constants(compiled, copies_constants ? chosen.constants : nullptr)};
  if (options.states != nullptr)
    for (const ValueId input : compiled.graph.inputs)
      memory.elsewhere[static_cast<std::size_t>(input)] =
          options.states->place_of(compiled.graph, input);
  if (copies_constants) upload_seconds_ = chosen.constants->upload_seconds() - uploaded;
  arena_ = memory.arena;
  constants_ = std::move(compiled.uses);
  std::vector<Step> placed;
  for (int microbatch = 0; microbatch < options.microbatches; ++microbatch) {
    const Places places{compiled, memory, microbatch};
    append_steps(places, placed);
    inputs_.push_back(places.views_of(compiled.graph.inputs));
    outputs_.push_back(places.views_of(compiled.graph.outputs));
  }
  for (const Step& step : placed)
    if (const auto* collective = collective_of(step)) collective_kernels_.push_back(collective);
  runner_ = device_.make_runner(std::move(placed), collectives_);
  if (options.states != nullptr) {
    auto copies = options.states->copies(graph, inputs_.front(), outputs_.front());
    hand_on_states_ = std::move(copies.hand_on);
    fill_states_ = std::move(copies.fill);
  }
  arena_bytes_ = compiled.arena_bytes();
  scratch_bytes_ = arena_bytes_ - compiled.bytes_without_scratch();
  derived_constant_bytes_ =
      compiled.folded_bytes + compiled.realigned_bytes + compiled.of_kernels.derived_bytes;
  graph_ = std::move(compiled.graph);
}

void Executable::write_input(std::size_t i, const graph::Tensor& tensor, int microbatch) {
  const TensorView& view = input(i, microbatch);
  require(tensor.size_bytes() == view.size_bytes(), "an input fills its place");
  const Tensor contiguous = tensor.is_contiguous() ? tensor : tensor.contiguous_copy();
  device_.write(view.data, contiguous.bytes());
}

graph::Tensor Executable::read_output(std::size_t i, int microbatch) const {
  const TensorView& view = output(i, microbatch);
  const auto bytes = static_cast<std::size_t>(view.size_bytes());
  const auto memory = std::make_shared_for_overwrite<std::byte[]>(bytes);
  device_.read({memory.get(), bytes}, view.data);
  return {view.type, view.shape, memory.get(), memory};
}

void Executable::run() {
  runner_->run();
  for (const CollectiveKernel* kernel : collective_kernels_)
    for (const bundle::CollectiveTotal& call : kernel->payload()) collectives_->count(call);
}

std::vector<Tensor> run_constants(const graph::Graph& graph, int threads) {
  Executable executable(graph, {.threads = threads, .optimize = false});
  executable.run();
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    results.push_back(executable.read_output(i));
  return results;
}

std::optional<std::vector<graph::Tensor>> evaluate_constants(const graph::Graph& graph) {
  try {
    if (auto results = evaluate_data_shaped(graph)) return results;
    return run_constants(graph, 1);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace autopar::runtime
