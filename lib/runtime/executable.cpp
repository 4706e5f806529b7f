#include "runtime/executable.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "graph/arena.h"
#include "runtime/memory_plan.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::ValueId;

/// libgomp's barriers are unknown to ThreadSanitizer, which would report every parallel loop: there
/// each rank has one thread, and what is checked is the ranks' communication.
int usable_threads(int threads) {
#if defined(__SANITIZE_THREAD__)
  static_cast<void>(threads);
  return 1;
#else
  return threads;
#endif
}

/// Uninitialised memory, aligned as the plan's offsets are.
class Arena {
 public:
  Arena() = default;
  explicit Arena(std::int64_t bytes)
      : memory_(static_cast<std::byte*>(::operator new(
            static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), alignment))) {}
  std::byte* at(std::int64_t offset) const { return memory_.get() + offset; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Release {
    void operator()(std::byte* memory) const { ::operator delete(memory, alignment); }
  };
  std::unique_ptr<std::byte, Release> memory_;
};

struct Step {
  std::unique_ptr<Kernel> kernel;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  std::byte* scratch = nullptr;
};

/// Kernels read contiguous, aligned constants. Returns the bytes of the copies that this takes.
std::int64_t realign_constants(Graph& graph) {
  std::int64_t copied = 0;
  for (graph::Value& value : graph.values) {
    if (!value.constant) continue;
    if (!value.constant->has_data())
      fail("constant '{}' has no data: is the model's file of weights missing?", value.name);
    if (value.constant->is_contiguous() && value.constant->is_aligned()) continue;
    value.constant = value.constant->contiguous_copy();
    copied += value.constant->size_bytes();
  }
  return copied;
}

const KernelEntry& entry_of(const Node& node) {
  const KernelEntry* entry = find_cpu_kernel(node.domain, node.op_type);
  if (entry == nullptr)
    fail("node '{}': operator {} has no CPU kernel", node.name, qualified_op_type(node));
  return *entry;
}

}  // namespace

struct Executable::Impl {
  Graph graph;  ///< keeps the constants alive
  int threads = 1;
  std::int64_t derived_bytes = 0;
  MemoryPlan plan;
  Arena arena;
  std::vector<Step> steps;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;

  Impl(const Graph& original, const CompileOptions& options)
      : graph(original), threads(usable_threads(options.threads)) {
    if (options.optimize) derived_bytes += passes::optimize(graph);
    derived_bytes += realign_constants(graph);
    omp_set_num_threads(threads);  // oneDNN asks when it makes a primitive, not only when it runs
    Storage storage(graph);
    std::vector<Step> all = make_steps(storage, options);
    lay_out(storage, all);
    for (Step& step : all)
      if (step.kernel) steps.push_back(std::move(step));
  }

  /// A step a node; views have no kernel.
  std::vector<Step> make_steps(Storage& storage, const CompileOptions& options) {
    std::vector<Step> all;
    for (const Node& node : graph.nodes) {
      const KernelEntry& entry = entry_of(node);
      Step& step = all.emplace_back();
      KernelRequest request{node, views_of(storage, node.inputs), views_of(storage, node.outputs),
                            threads, options.collectives};
      step.kernel = entry.make(request);
      step.inputs = std::move(request.inputs);
      step.outputs = std::move(request.outputs);
      if (!entry.is_view || !may_alias(storage, node)) continue;
      storage.alias(node.outputs[0], node.inputs[0]);
      step.kernel.reset();
    }
    return all;
  }

  /// Whether the node's only output may share its input's bytes: one that leaves the graph must
  /// not be an input or a constant in another guise.
  bool may_alias(const Storage& storage, const Node& node) const {
    if (std::ranges::count_if(node.outputs, [](ValueId id) { return id != graph::no_value; }) != 1)
      return false;
    const auto is_one_of = [](const std::vector<ValueId>& ids, ValueId id) {
      return std::ranges::find(ids, id) != ids.end();
    };
    const ValueId root = storage.root(node.inputs[0]);
    const bool is_given = graph.is_constant(root) || is_one_of(graph.inputs, root);
    return !(is_given && is_one_of(graph.outputs, node.outputs[0]));
  }

  /// Views with data for constants alone.
  TensorView view_of(const Storage& storage, ValueId id) const {
    if (id == graph::no_value) return {};
    const graph::Value& value = graph.value(id);
    TensorView view{value.type, value.shape, nullptr};
    const auto& constant = graph.value(storage.root(id)).constant;
    // Views are of inputs and outputs alike; no kernel writes to an input.
    if (constant) view.data = const_cast<std::byte*>(constant->data());
    return view;
  }
  std::vector<TensorView> views_of(const Storage& storage, const std::vector<ValueId>& ids) const {
    std::vector<TensorView> views;
    for (const ValueId id : ids) views.push_back(view_of(storage, id));
    return views;
  }

  /// Plans and allocates the arena, and points every view into it.
  void lay_out(const Storage& storage, std::vector<Step>& all) {
    std::vector<std::int64_t> scratch;
    for (const Step& step : all) scratch.push_back(step.kernel ? step.kernel->scratch_bytes() : 0);
    plan = plan_memory(graph, storage, scratch);
    arena = Arena(plan.arena_bytes);
    const auto point = [&](TensorView& view, ValueId id) {
      if (id == graph::no_value || graph.is_constant(storage.root(id))) return;
      view.data = arena.at(plan.value_offsets[static_cast<std::size_t>(id)]);
    };
    for (std::size_t n = 0; n < all.size(); ++n) {
      const Node& node = graph.nodes[n];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) point(all[n].inputs[i], node.inputs[i]);
      for (std::size_t i = 0; i < node.outputs.size(); ++i)
        point(all[n].outputs[i], node.outputs[i]);
      all[n].scratch = arena.at(plan.scratch_offsets[n]);
    }
    inputs = views_of(storage, graph.inputs);
    outputs = views_of(storage, graph.outputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) point(inputs[i], graph.inputs[i]);
    for (std::size_t i = 0; i < outputs.size(); ++i) point(outputs[i], graph.outputs[i]);
  }
};

Executable::Executable(const graph::Graph& graph, const CompileOptions& options)
    : impl_(std::make_unique<Impl>(graph, options)) {
  // Fusion may keep values longer. Where that breaks the promise of arena_bound, do without.
  if (options.optimize && impl_->plan.bytes_without_scratch > graph::arena_bound(graph)) {
    CompileOptions plain = options;
    plain.optimize = false;
    impl_ = std::make_unique<Impl>(graph, plain);
  }
}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;

const TensorView& Executable::input(std::size_t i) const { return impl_->inputs.at(i); }
const TensorView& Executable::output(std::size_t i) const { return impl_->outputs.at(i); }

void Executable::run() {
  omp_set_num_threads(impl_->threads);
  for (const Step& step : impl_->steps) step.kernel->run({step.inputs, step.outputs, step.scratch});
}

std::int64_t Executable::arena_bytes() const { return impl_->plan.arena_bytes; }
std::int64_t Executable::scratch_bytes() const {
  return impl_->plan.arena_bytes - impl_->plan.bytes_without_scratch;
}
std::int64_t Executable::derived_constant_bytes() const { return impl_->derived_bytes; }

std::optional<std::vector<graph::Tensor>> evaluate_constants(const graph::Graph& graph) {
  try {
    Executable executable(graph, {.threads = 1, .collectives = nullptr, .optimize = false});
    executable.run();
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const TensorView& view = executable.output(i);
      Tensor result = Tensor::zeros(view.type, view.shape);
      if (view.size_bytes() > 0)
        std::memcpy(result.mutable_bytes().data(), view.data,
                    static_cast<std::size_t>(view.size_bytes()));
      results.push_back(std::move(result));
    }
    return results;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace autopar::runtime
