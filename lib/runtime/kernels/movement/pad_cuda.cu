#include <memory>

#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/words.h"
#include "runtime/kernels/movement/kernels.h"
#include "runtime/kernels/movement/padding.h"

namespace autopar::runtime::cuda {
namespace {

/// The dimensions down to the last that is padded, innermost first; what lies behind them is a row.
struct PaddedLayout {
  static constexpr int max_dimensions = 8;

  PadMode mode = PadMode::constant;
  int dimensions = 0;
  std::uint32_t words = 0;
  FastDivisor row_words;
  FastDivisor out_extents[max_dimensions];
  std::int64_t in_extents[max_dimensions] = {};
  std::int64_t before[max_dimensions] = {};
};

/// 8 bytes full of the element at `value`, or of zeros where it is null.
__device__ std::uint64_t pattern_at(const std::byte* value, int element_bytes) {
  if (value == nullptr) return 0;
  switch (element_bytes) {
    case 1:
      return repeated(*reinterpret_cast<const std::uint8_t*>(value));
    case 2:
      return repeated(*reinterpret_cast<const std::uint16_t*>(value));
    case 4:
      return repeated(*reinterpret_cast<const std::uint32_t*>(value));
    default:
      return *reinterpret_cast<const std::uint64_t*>(value);
  }
}

template <typename Word>
__global__ void pad(const Word* in, Word* out, const __grid_constant__ PaddedLayout layout,
                    const std::byte* value, int element_bytes) {
  const std::uint32_t word = blockIdx.x * blockDim.x + threadIdx.x;
  if (word >= layout.words) return;
  std::uint32_t rest = word;
  std::int64_t from = layout.row_words.divide(rest);
  std::int64_t stride = layout.row_words.divisor();
  bool is_inside = true;
  for (int d = 0; d < layout.dimensions; ++d) {
    const std::int64_t place = layout.out_extents[d].divide(rest) - layout.before[d];
    const std::int64_t index = extended_index(layout.mode, place, layout.in_extents[d]);
    is_inside = is_inside && index >= 0;
    from += index * stride;
    stride *= layout.in_extents[d];
  }
  out[word] = is_inside ? in[from] : word_of<Word>(pattern_at(value, element_bytes));
}

class PadKernel final : public Kernel {
 public:
  explicit PadKernel(const KernelRequest& request)
      : element_bytes_(element_bytes_of(request, request.inputs.at(0))) {
    const Padding padding = padding_of(request);
    const Shape& from = request.inputs[0].shape;
    const Shape& to = request.outputs.at(0).shape;
    std::size_t padded = from.size();
    std::int64_t row_bytes = element_bytes_;
    while (padded > 0 && padding.before[padded - 1] == 0 && from[padded - 1] == to[padded - 1])
      row_bytes *= from[--padded];
    if (padded > PaddedLayout::max_dimensions)
      fail("node '{}': Pad of more than {} dimensions has no CUDA kernel", request.node.name,
           PaddedLayout::max_dimensions);
    word_bytes_ = word_bytes_of(row_bytes);
    layout_.words = checked_count(request, request.outputs[0].size_bytes() / word_bytes_);
    if (layout_.words == 0) return;
    layout_.mode = padding.mode;
    layout_.row_words = FastDivisor(row_bytes / word_bytes_);
    for (std::size_t d = padded; d-- > 0; ++layout_.dimensions) {
      layout_.out_extents[layout_.dimensions] = FastDivisor(to[d]);
      layout_.in_extents[layout_.dimensions] = from[d];
      layout_.before[layout_.dimensions] = padding.before[d];
    }
  }

  void run(const KernelIo& io) override {
    if (layout_.words == 0) return;
    const auto* value = optional_data<const std::byte>(io.inputs, 2);
    visit_word(word_bytes_, [&]<typename Word>(Word) {
      launch(stream_of(io), a_thread_each(layout_.words), pad<Word>, io.inputs[0].as<const Word>(),
             io.outputs[0].as<Word>(), layout_, value, element_bytes_);
    });
  }

 private:
  int element_bytes_;
  int word_bytes_ = 1;
  PaddedLayout layout_;
};

}  // namespace

std::unique_ptr<Kernel> make_pad(const KernelRequest& request) {
  return std::make_unique<PadKernel>(request);
}

}  // namespace autopar::runtime::cuda
