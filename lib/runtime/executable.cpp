#include "runtime/executable.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/problems.h"
#include "graph/arena.h"
#include "graph/state.h"
#include "runtime/collectives.h"
#include "runtime/data_shaped.h"
#include "runtime/devices/cpu_device.h"
#include "runtime/memory_plan.h"
#include "runtime/passes/passes.h"
#include "runtime/state_copies.h"
#include "runtime/trace.h"

namespace autopar::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

/// Constants up to this size may be read when kernels are made; larger ones are data alone.
constexpr std::int64_t read_when_made_bytes = 1 << 16;

/// Kernels read contiguous, aligned constants; what is copied to a device is aligned there. Returns
/// the bytes of the copies that this takes.
std::int64_t realign_constants(Graph& graph, bool is_copied) {
  std::int64_t copied = 0;
  for (graph::Value& value : graph.values) {
    if (!value.constant) continue;
    if (!value.constant->has_data())
      fail("constant '{}' has no data: is the model's file of weights missing?", value.name);
    const bool may_be_unaligned = is_copied && value.constant->size_bytes() > read_when_made_bytes;
    if (value.constant->is_contiguous() && (may_be_unaligned || value.constant->is_aligned()))
      continue;
    value.constant = value.constant->contiguous_copy();
    copied += value.constant->size_bytes();
  }
  return copied;
}

const KernelEntry& entry_of(const Node& node, const KernelTable& kernels) {
  const KernelEntry* entry = kernels.find(node.domain, node.op_type);
  require(entry != nullptr, "operators without a kernel are refused before");
  return *entry;
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

/// For each state whether its rows keep their places, which the graph tells before passes rewrite
/// it.
std::vector<bool> rows_stay(const Graph& graph) {
  std::vector<bool> stay;
  for (const graph::State& state : graph.states) stay.push_back(graph::keeps_places(graph, state));
  return stay;
}

}  // namespace

struct Executable::Impl {
  Graph graph;  ///< keeps the constants alive
  std::unique_ptr<Device> own_device;
  Device& device;
  CollectiveContext* collectives = nullptr;
  std::vector<bool> state_rows_stay;  ///< by state
  std::int64_t folded_bytes = 0;
  std::int64_t realigned_bytes = 0;
  double upload_seconds = 0;
  MemoryPlan plan;
  OwnMemory of_kernels;
  std::shared_ptr<std::byte> memory;      ///< the arena, then the constants that are copied
  std::vector<std::byte*> constant_data;  ///< by ValueId: where kernels read it
  std::vector<const CollectiveKernel*> collective_kernels;  ///< a step each
  Storage storage;
  int microbatches = 1;
  std::vector<Step> steps;  ///< a step a node, of no microbatch yet; views have no kernel
  std::unique_ptr<Runner> runner;
  StateCopies states;
  std::vector<std::vector<TensorView>> inputs;  ///< by microbatch
  std::vector<std::vector<TensorView>> outputs;

  /// Makes the kernels and plans memory.
  Impl(const Graph& original, const CompileOptions& options, passes::Rewrites rewrites)
      : graph(original),
        own_device(options.device ? nullptr : std::make_unique<CpuDevice>(options.threads)),
        device(options.device ? *options.device : *own_device),
        collectives(options.collectives),
        state_rows_stay(rows_stay(original)),
        folded_bytes(passes::optimize(graph, device.kernels(), rewrites)),
        realigned_bytes(realign_constants(graph, !device.shares_host_memory())),
        storage(alias_views(graph, device.kernels())),
        microbatches(options.microbatches) {
    require(microbatches > 0, "there is a microbatch");
    make_steps();
    std::vector<std::int64_t> scratch;
    for (const Step& step : steps) scratch.push_back(step.scratch_bytes);
    plan = plan_memory(graph, storage, scratch, apart(options.common_inputs));
  }

  /// What must have memory of its own, so that microbatches overlap; nothing where there is one.
  Apart apart(const std::vector<std::string>& common_inputs) const {
    Apart apart;
    if (microbatches == 1) return apart;
    apart.slots = graph::value_slots(graph, microbatches);
    for (const ValueId input : graph.inputs) {
      const bool is_common =
          std::ranges::find(common_inputs, graph.value(input).name) != common_inputs.end();
      const bool leaves = std::ranges::find(graph.outputs, input) != graph.outputs.end();
      if (is_common && !leaves) apart.slots[static_cast<std::size_t>(input)] = 1;
    }
    for (const Step& step : steps) {
      const auto* collective = dynamic_cast<const CollectiveKernel*>(step.kernel.get());
      apart.scratch.push_back(collective ? collective->queue() : Queue::computation);
    }
    return apart;
  }

  bool has_collective_groups() const {
    return std::ranges::any_of(graph.nodes,
                               [](const Node& node) { return node.op_type == "CollectiveGroup"; });
  }

  /// Allocates memory and fills it; the Impl is ready to run then.
  void finish() {
    place_constants();
    std::vector<Step> placed;
    for (int microbatch = 0; microbatch < microbatches; ++microbatch)
      place_values(microbatch, placed);
    steps.clear();
    for (const Step& step : placed)
      if (const auto* collective = dynamic_cast<const CollectiveKernel*>(step.kernel.get()))
        collective_kernels.push_back(collective);
    runner = device.make_runner(std::move(placed), collectives);
    if (!graph.states.empty())
      states = StateCopies(graph, state_rows_stay, inputs.front(), outputs.front(), device);
  }

  void make_steps() {
    require_kernels(graph, device.kernels());
    const auto readers = graph::consumers(graph);
    for (const Node& node : graph.nodes) {
      const KernelEntry& entry = entry_of(node, device.kernels());
      Step& step = steps.emplace_back();
      KernelRequest request{
          node,        views_of(node.inputs),     views_of(node.outputs),   device,
          collectives, constants_of(node.inputs), own_inputs(node, readers)};
      step.node = node.name;
      step.op_type = node.op_type;
      step.kernel = entry.make(request);
      step.inputs = std::move(request.inputs);
      step.outputs = std::move(request.outputs);
      if (entry.is_view && shares_bytes_with_input(node)) {
        step.kernel.reset();
        continue;
      }
      step.scratch_bytes = step.kernel->scratch_bytes();
      add_own_memory(*step.kernel);
      if (device.shares_host_memory()) spare_constants(node, *step.kernel, request.is_own);
    }
  }

  void add_own_memory(const Kernel& kernel) {
    const OwnMemory own = kernel.own_memory();
    of_kernels.arena_bytes += own.arena_bytes;
    of_kernels.scratch_bytes += own.scratch_bytes;
    of_kernels.derived_bytes += own.derived_bytes;
  }

  std::int64_t arena_bytes() const { return plan.arena_bytes + of_kernels.arena_bytes; }
  std::int64_t bytes_without_scratch() const {
    return plan.bytes_without_scratch + of_kernels.arena_bytes - of_kernels.scratch_bytes;
  }
  std::int64_t all_derived_bytes() const {
    return folded_bytes + realigned_bytes + of_kernels.derived_bytes;
  }

  /// Memory of constants that the node alone reads, and not all of.
  void spare_constants(const Node& node, const Kernel& kernel, const std::vector<bool>& is_own) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (is_own[i] && !kernel.reads(i)) graph.value(id).constant->drop_data();
    }
  }

  std::vector<bool> own_inputs(const Node& node,
                               const std::vector<std::vector<NodeId>>& readers) const {
    std::vector<bool> is_own;
    for (const ValueId id : node.inputs) {
      const bool is_output = std::ranges::find(graph.outputs, id) != graph.outputs.end();
      is_own.push_back(graph.is_constant(id) && !is_output &&
                       readers[static_cast<std::size_t>(id)].size() == 1);
    }
    return is_own;
  }

  bool shares_bytes_with_input(const Node& node) const {
    return storage.root(node.outputs[0]) == storage.root(node.inputs[0]);
  }

  /// Views with data, which the host can read, for constants alone.
  TensorView view_of(ValueId id) const {
    if (id == graph::no_value) return {};
    const graph::Value& value = graph.value(id);
    TensorView view{value.type, value.shape, nullptr};
    const auto& constant = graph.value(storage.root(id)).constant;
    // Views are of inputs and outputs alike; no kernel writes to an input.
    if (constant) view.data = const_cast<std::byte*>(constant->data());
    return view;
  }
  std::vector<TensorView> views_of(const std::vector<ValueId>& ids) const {
    std::vector<TensorView> views;
    for (const ValueId id : ids) views.push_back(view_of(id));
    return views;
  }

  std::vector<const graph::Tensor*> constants_of(const std::vector<ValueId>& ids) const {
    std::vector<const graph::Tensor*> constants;
    for (const ValueId id : ids) {
      const auto root = id == graph::no_value ? id : storage.root(id);
      constants.push_back(graph.is_constant(root) ? &*graph.value(root).constant : nullptr);
    }
    return constants;
  }

  /// Appends the microbatch's steps, but views, which run nothing, every tensor in its place.
  void place_values(int microbatch, std::vector<Step>& placed) {
    const auto point = [&](std::vector<TensorView>& views, const std::vector<ValueId>& ids) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == graph::no_value) continue;
        const ValueId root = storage.root(ids[i]);
        views[i].data = graph.is_constant(root)
                            ? constant_data[static_cast<std::size_t>(root)]
                            : memory.get() + plan.value_offset(ids[i], microbatch);
      }
    };
    for (std::size_t n = 0; n < steps.size(); ++n) {
      if (steps[n].kernel == nullptr) continue;
      const Node& node = graph.nodes[n];
      Step& step = placed.emplace_back(steps[n]);
      step.microbatch = microbatch;
      point(step.inputs, node.inputs);
      point(step.outputs, node.outputs);
      step.scratch = memory.get() + plan.scratch_offsets[n];
    }
    point(inputs.emplace_back(views_of(graph.inputs)), graph.inputs);
    point(outputs.emplace_back(views_of(graph.outputs)), graph.outputs);
  }

  /// Allocates the arena. Where the device cannot read the host's memory, constants follow it.
  void place_constants() {
    std::int64_t bytes = graph::aligned(plan.arena_bytes);
    std::vector<std::int64_t> offsets(graph.values.size(), 0);
    constant_data.resize(graph.values.size());
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      const auto& constant = graph.values[v].constant;
      if (!constant) continue;
      // Views are of inputs and outputs alike; no kernel writes to an input.
      constant_data[v] = const_cast<std::byte*>(constant->data());
      offsets[v] = bytes;
      if (!device.shares_host_memory()) bytes += graph::aligned(constant->size_bytes());
    }
    memory = device.allocate(bytes);
    if (device.shares_host_memory()) return;
    std::vector<Device::Upload> uploads;
    for (std::size_t v = 0; v < graph.values.size(); ++v) {
      if (!graph.values[v].constant) continue;
      constant_data[v] = memory.get() + offsets[v];
      uploads.push_back({&*graph.values[v].constant, constant_data[v]});
    }
    const auto start = std::chrono::steady_clock::now();
    device.upload(uploads);
    upload_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
};

Executable::Executable(const graph::Graph& graph, const CompileOptions& options) {
  passes::Rewrites rewrites{.fuse = options.optimize, .group_collectives = options.optimize};
  const auto compile = [&] { impl_ = std::make_unique<Impl>(graph, options, rewrites); };
  // Rewrites may keep values longer. Where that breaks the promise of arena_bound, do without.
  const auto keeps_promise = [&] {
    return impl_->folded_bytes + impl_->of_kernels.derived_bytes + impl_->bytes_without_scratch() <=
           graph::arena_bound(graph) + graph::slot_bytes(graph, options.microbatches);
  };
  compile();
  // All ranks must send in one order: grouped on all of them or on none.
  if (impl_->has_collective_groups() && !options.collectives->all_agree(keeps_promise())) {
    rewrites.group_collectives = false;
    compile();
  }
  if (rewrites.fuse && !keeps_promise()) {
    rewrites.fuse = false;
    compile();
  }
  impl_->finish();
}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;

const TensorView& Executable::input(std::size_t i, int microbatch) const {
  return impl_->inputs.at(static_cast<std::size_t>(microbatch)).at(i);
}
const TensorView& Executable::output(std::size_t i, int microbatch) const {
  return impl_->outputs.at(static_cast<std::size_t>(microbatch)).at(i);
}

void Executable::write_input(std::size_t i, const graph::Tensor& tensor, int microbatch) {
  const TensorView& view = input(i, microbatch);
  require(tensor.size_bytes() == view.size_bytes(), "an input fills its place");
  const Tensor contiguous = tensor.is_contiguous() ? tensor : tensor.contiguous_copy();
  impl_->device.write(view.data, contiguous.bytes());
}

graph::Tensor Executable::read_output(std::size_t i, int microbatch) const {
  const TensorView& view = output(i, microbatch);
  Tensor result = Tensor::zeros(view.type, view.shape);
  impl_->device.read(result.mutable_bytes(), view.data);
  return result;
}

std::vector<Span> Executable::profile() { return impl_->runner->profile(); }

void Executable::run() {
  impl_->runner->run();
  for (const CollectiveKernel* kernel : impl_->collective_kernels)
    for (const bundle::CollectiveTotal& call : kernel->payload()) impl_->collectives->count(call);
}

void Executable::hand_on_states(std::int64_t first_row, int step) {
  impl_->states.hand_on(first_row, step);
}

std::int64_t Executable::arena_bytes() const { return impl_->arena_bytes(); }
std::int64_t Executable::scratch_bytes() const {
  return impl_->arena_bytes() - impl_->bytes_without_scratch();
}
std::int64_t Executable::launches() const { return impl_->runner->launches(); }
double Executable::device_seconds() const { return impl_->runner->device_seconds(); }
double Executable::upload_seconds() const { return impl_->upload_seconds; }
std::int64_t Executable::derived_constant_bytes() const { return impl_->all_derived_bytes(); }

std::optional<std::vector<graph::Tensor>> evaluate_constants(const graph::Graph& graph) {
  try {
    if (auto results = evaluate_data_shaped(graph)) return results;
    Executable executable(graph, {.threads = 1, .collectives = nullptr, .optimize = false});
    executable.run();
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i)
      results.push_back(executable.read_output(i));
    return results;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace autopar::runtime
