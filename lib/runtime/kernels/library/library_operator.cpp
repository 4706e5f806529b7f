#include "runtime/kernels/library/library_operator.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "base/error.h"
#include "graph/operators/library_node.h"
#include "graph/operators/library_operator.h"
#include "runtime/device.h"
#include "runtime/kernels/library/guarded_block.h"

namespace autopar::runtime {
namespace {

using graph::LibraryOperator;

/// Two fills that no number has twice in a row.
constexpr std::byte first_fill{0xA5};
constexpr std::byte second_fill{0x5A};

std::int64_t bytes_of(const TensorView& view) { return view.present() ? view.size_bytes() : 0; }

std::vector<AutoparTensor> tensors_of(std::span<const TensorView> views) {
  std::vector<AutoparTensor> tensors;
  for (const TensorView& view : views)
    tensors.push_back({static_cast<std::int32_t>(view.type),
                       static_cast<std::int32_t>(view.shape.size()), view.shape.data(), nullptr});
  return tensors;
}

std::vector<graph::LibraryInput> inputs_of(const KernelRequest& request) {
  std::vector<graph::LibraryInput> inputs;
  for (std::size_t i = 0; i < request.inputs.size(); ++i)
    inputs.push_back({request.inputs[i].type, request.inputs[i].shape,
                      i < request.constants.size() ? request.constants[i] : nullptr});
  return inputs;
}

class LibraryKernel final : public Kernel {
 public:
  LibraryKernel(const KernelRequest& request, const LibraryOperator& op)
      : where_(fmt::format("node '{}': {}", request.node.name, op.name())),
        on_gpu_(!request.device.shares_host_memory()),
        run_(on_gpu_ ? op.definition->cuda : op.definition->cpu),
        threads_(request.device.threads()),
        node_(request.node.attributes, inputs_of(request), request.outputs.size()),
        input_views_(request.inputs),
        output_views_(request.outputs),
        inputs_(tensors_of(input_views_)),
        outputs_(tensors_of(output_views_)),
        scratch_bytes_(asked_scratch(*op.definition)),
        is_checked_(on_gpu_) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelIo& io) override {
    if (std::ranges::all_of(output_views_, [](const auto& view) { return bytes_of(view) == 0; }))
      return;
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].data = io.inputs[i].data;
    if (!is_checked_) return run_checked(io);
    for (std::size_t o = 0; o < outputs_.size(); ++o) outputs_[o].data = io.outputs[o].data;
    call(io.scratch, io.stream);
  }

 private:
  /// Where a checked run works.
  struct Blocks {
    std::vector<GuardedBlock> outputs;
    GuardedBlock scratch;
  };

  std::int64_t asked_scratch(const AutoparOperator& op) const {
    const AutoparScratch ask = on_gpu_ ? op.cuda_scratch_bytes : op.scratch_bytes;
    std::int64_t bytes = 0;
    std::array<char, AUTOPAR_ERROR_BYTES> reason{};
    if (ask != nullptr && ask(&node_.view(), outputs_.data(), &bytes, reason.data()) != 0)
      fail("{}: {}", where_, graph::reason_in(reason));
    if (bytes < 0) throw graph::OperatorFault(fmt::format("{} asks for {} bytes", where_, bytes));
    return bytes;
  }

  void call(std::byte* scratch, void* stream) {
    const AutoparRun run{&node_.view(), inputs_.data(), outputs_.data(), scratch, stream, threads_};
    std::array<char, AUTOPAR_ERROR_BYTES> reason{};
    if (run_(&run, reason.data()) != 0) fail("{}: {}", where_, graph::reason_in(reason));
  }

  void run_checked(const KernelIo& io) {
    const Blocks first = run_in_blocks(first_fill);
    const Blocks second = run_in_blocks(second_fill);
    for (std::size_t o = 0; o < outputs_.size(); ++o) {
      const TensorView& view = output_views_[o];
      const std::int64_t unwritten =
          unwritten_elements(first.outputs[o], second.outputs[o], element_bytes(view.type));
      if (unwritten > 0)
        fail_as_faulty(fmt::format("leaves {} of the {} elements of output {}, {} {}, unwritten",
                                   unwritten, view.elements(), o, graph::name_of(view.type),
                                   graph::to_string(view.shape)));
      std::ranges::copy(second.outputs[o].bytes(), io.outputs[o].data);
    }
    is_checked_ = true;
  }

  Blocks run_in_blocks(std::byte fill) {
    Blocks blocks{{}, GuardedBlock(scratch_bytes_, fill)};
    for (const TensorView& view : output_views_) blocks.outputs.emplace_back(bytes_of(view), fill);
    for (std::size_t o = 0; o < outputs_.size(); ++o)
      outputs_[o].data = output_views_[o].present() ? blocks.outputs[o].bytes().data() : nullptr;
    call(blocks.scratch.bytes().data(), nullptr);
    for (std::size_t o = 0; o < outputs_.size(); ++o)
      if (!blocks.outputs[o].guards_are_whole())
        fail_as_faulty(fmt::format("writes outside of output {}, {} {}", o,
                                   graph::name_of(output_views_[o].type),
                                   graph::to_string(output_views_[o].shape)));
    if (!blocks.scratch.guards_are_whole())
      fail_as_faulty(fmt::format("writes outside of its {} bytes of scratch", scratch_bytes_));
    return blocks;
  }

  static std::int64_t element_bytes(DataType type) {
    return std::max(type == DataType::undefined ? 0 : graph::bytes_of(type, 1), std::int64_t{1});
  }

  [[noreturn]] void fail_as_faulty(const std::string& what) const {
    throw graph::OperatorFault(fmt::format(
        "{}: its kernel {}: shape function and kernel disagree; mend the library", where_, what));
  }

  std::string where_;
  bool on_gpu_;
  AutoparKernel run_;
  int threads_;
  graph::LibraryNode node_;
  std::vector<TensorView> input_views_;  ///< keep the shapes
  std::vector<TensorView> output_views_;
  std::vector<AutoparTensor> inputs_;
  std::vector<AutoparTensor> outputs_;
  std::int64_t scratch_bytes_;
  bool is_checked_;
};

std::unique_ptr<Kernel> make_library_kernel(const KernelRequest& request) {
  const LibraryOperator* op =
      graph::find_library_operator(request.node.domain, request.node.op_type);
  require(op != nullptr, "a library has the operator");
  return std::make_unique<LibraryKernel>(request, *op);
}

}  // namespace

const KernelEntry* find_library_kernel(std::string_view domain, std::string_view op_type,
                                       bool on_gpu) {
  const LibraryOperator* op = graph::find_library_operator(domain, op_type);
  if (op == nullptr || (on_gpu && op->definition->cuda == nullptr)) return nullptr;
  static std::mutex mutex;
  static std::map<const LibraryOperator*, KernelEntry> entries;
  const std::lock_guard lock(mutex);
  return &entries
              .try_emplace(op, KernelEntry{op->definition->domain, op->definition->name,
                                           make_library_kernel})
              .first->second;
}

}  // namespace autopar::runtime
