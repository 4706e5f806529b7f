#include <memory>

#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/targets.h"
#include "runtime/kernels/movement/kernels.h"

namespace autopar::runtime::cuda {
namespace {

/// A word of a row that an index names, a thread each.
template <typename Word, typename Targets>
__global__ void gather(const Word* in, Word* out, const __grid_constant__ Targets targets,
                       FastDivisor row_words, std::uint32_t words) {
  const std::uint32_t word = blockIdx.x * blockDim.x + threadIdx.x;
  if (word >= words) return;
  std::uint32_t row = word;
  const std::uint32_t column = row_words.divide(row);
  const std::int64_t target = targets(row);
  if (target >= 0) out[word] = in[target * row_words.divisor() + column];
}

template <typename Targets>
class GatherKernel final : public Kernel {
 public:
  GatherKernel(const KernelRequest& request, Targets targets, std::int64_t row_elements)
      : targets_(targets) {
    const std::int64_t row_bytes = row_elements * element_bytes_of(request, request.inputs[0]);
    word_bytes_ = word_bytes_of(row_bytes);
    words_ = checked_count(request, request.outputs.at(0).size_bytes() / word_bytes_);
    if (words_ > 0) row_words_ = FastDivisor(row_bytes / word_bytes_);
  }

  void run(const KernelIo& io) override {
    if (words_ == 0) return;
    targets_.set(io.inputs[1]);
    visit_word(word_bytes_, [&]<typename Word>(Word) {
      launch(stream_of(io), a_thread_each(words_), gather<Word, Targets>,
             io.inputs[0].as<const Word>(), io.outputs[0].as<Word>(), targets_, row_words_, words_);
    });
  }

 private:
  Targets targets_;
  int word_bytes_ = 1;
  FastDivisor row_words_;
  std::uint32_t words_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_gather(const KernelRequest& request) {
  const AxisExtents extents = gathered_extents(request);
  return std::make_unique<GatherKernel<RowTargets>>(request, RowTargets(request, extents),
                                                    extents.inner);
}

std::unique_ptr<Kernel> make_gather_elements(const KernelRequest& request) {
  return std::make_unique<GatherKernel<ElementTargets>>(request, ElementTargets(request), 1);
}

std::unique_ptr<Kernel> make_gather_nd(const KernelRequest& request) {
  return std::make_unique<GatherKernel<SliceTargets>>(request, SliceTargets(request),
                                                      slice_indexing(request).elements);
}

}  // namespace autopar::runtime::cuda
