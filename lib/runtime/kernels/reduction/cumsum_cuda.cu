// CumSum: a block a row, a part after the other.

#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/words.h"
#include "runtime/kernels/reduction/kernels.h"

namespace autopar::runtime::cuda {
namespace {

constexpr unsigned scan_threads = 256;
constexpr unsigned scan_warps = scan_threads / 32;

/// The sum over the block's threads before this one, and this one's `x` unless `exclusive`.
/// `totals` gets the sum of each warp. All threads come.
template <typename Wide>
__device__ Wide running_sum(Wide x, bool exclusive, Wide* totals) {
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const Wide before = __shfl_up_sync(0xFFFFFFFFU, x, distance);
    if (lane >= distance) x += before;
  }
  if (lane == 31) totals[warp] = x;
  if (exclusive) {
    x = __shfl_up_sync(0xFFFFFFFFU, x, 1);
    if (lane == 0) x = Wide{};
  }
  __syncthreads();
  Wide before{};
  for (unsigned w = 0; w < warp; ++w) before += totals[w];
  return before + x;
}

template <typename T>
__global__ void __launch_bounds__(scan_threads)
    sum_rows(const T* in, T* out, const __grid_constant__ CumSumArguments of) {
  using Wide = Accumulator<T>;
  __shared__ Wide totals[scan_warps];
  const AxisExtents& rows = of.extents;
  const std::int64_t stride = of.reverse ? -rows.inner : rows.inner;
  const std::int64_t first =
      rows.row_offset(blockIdx.x) + (of.reverse ? (rows.extent - 1) * rows.inner : 0);
  Wide carried{};
  for (std::int64_t part = 0; part < rows.extent; part += scan_threads) {
    const std::int64_t step = part + threadIdx.x;
    const std::int64_t at = first + step * stride;
    const Wide x = step < rows.extent ? accumulated(in[at]) : Wide{};
    const Wide sum = carried + running_sum(x, of.exclusive, totals);
    if (step < rows.extent) out[at] = narrowed<T>(sum);
    for (unsigned w = 0; w < scan_warps; ++w) carried += totals[w];
    __syncthreads();
  }
}

template <typename T>
class CumSum final : public Kernel {
 public:
  explicit CumSum(const CumSumArguments& of) : of_(of) {}

  void run(const KernelIo& io) override {
    if (io.inputs[0].elements() == 0) return;
    launch(stream_of(io), {dim3(static_cast<unsigned>(of_.extents.rows())), dim3(scan_threads)},
           sum_rows<T>, io.inputs[0].as<const T>(), io.outputs[0].as<T>(), of_);
  }

 private:
  CumSumArguments of_;
};

}  // namespace

std::unique_ptr<Kernel> make_cumsum_by_blocks(const KernelRequest& request) {
  const CumSumArguments of = cumsum_arguments(request);
  if (of.extents.inner >= 32) return nullptr;
  checked_count(request, request.inputs[0].elements());
  return kernel_for_type(request, stored_type(request.inputs[0].type), AllNumbers{},
                         [&]<typename T>(T) { return std::make_unique<CumSum<T>>(of); });
}

}  // namespace autopar::runtime::cuda
