#include <algorithm>

#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/elementwise/code_cuda.h"
#include "runtime/kernels/elementwise/pattern_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// Whether a thread's `bytes` bytes at every multiple of them can be accessed at once.
bool is_aligned(const void* data, int bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<unsigned>(std::min(bytes, 16)) == 0;
}

class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(const ElementwiseProgram& program, const KernelRequest& request)
      : is_wide_(needs_wide_registers(program)),
        width_(is_wide_ ? wide_width : narrow_width),
        code_(make_code(program, width_, request.node)),
        output_bytes_(graph::bits_of(program.output_type) / 8),
        pattern_(make_pattern_kernel(program)) {
    for (const auto& input : program.inputs)
      indices_.push_back(static_cast<std::size_t>(input.index));
  }

  void run(const KernelIo& io) override {
    if (code_.elements == 0) return;
    const auto stream = static_cast<cudaStream_t>(io.stream);
    if (pattern_ && run_pattern(io, stream)) return;
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      CodeInput& input = code_.inputs[i];
      input.data = io.inputs[indices_[i]].data;
      input.is_aligned = is_aligned(input.data, width_ * input.element_bytes);
    }
    code_.output = io.outputs[0].data;
    code_.output_is_aligned = is_aligned(code_.output, width_ * output_bytes_);
    is_wide_ ? run_wide(code_, stream) : run_narrow(code_, stream);
  }

 private:
  /// False where operands do not lie at multiples of 16 bytes.
  bool run_pattern(const KernelIo& io, cudaStream_t stream) const {
    std::vector<const std::byte*> inputs;
    for (const std::size_t i : indices_) inputs.push_back(io.inputs[i].data);
    std::byte* output = io.outputs[0].data;
    const auto lies_well = [](const std::byte* data) { return is_aligned(data, 16); };
    if (!std::ranges::all_of(inputs, lies_well) || !lies_well(output)) return false;
    pattern_->run(inputs, output, stream);
    return true;
  }

  bool is_wide_;
  int width_;
  ElementwiseCode code_;
  int output_bytes_;
  std::unique_ptr<PatternKernel> pattern_;  ///< null for what the interpreter runs
  std::vector<std::size_t> indices_;        ///< of the kernel's inputs, by the code's
};

}  // namespace

std::unique_ptr<Kernel> make_elementwise(const KernelRequest& request) {
  if (auto fold = make_long_fold(request)) return fold;
  return std::make_unique<ElementwiseKernel>(elementwise_program(request), request);
}

std::unique_ptr<Kernel> make_elementwise_chain(const KernelRequest& request) {
  return std::make_unique<ElementwiseKernel>(chain_program(request), request);
}

}  // namespace autopar::runtime::cuda
