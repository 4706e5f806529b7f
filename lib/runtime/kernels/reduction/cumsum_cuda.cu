#include "runtime/kernels/reduction/cumsum.h"

#include <memory>

#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/words.h"
#include "runtime/kernels/reduction/kernels.h"
#include "runtime/kernels/reduction/reduction.h"

namespace autopar::runtime::cuda {
namespace {

/// Rows along the axis: where they lie, and which sums are asked for.
struct Rows {
  std::uint32_t count = 1;
  std::int64_t extent = 1;
  FastDivisor inner;
  bool exclusive = false;
  bool reverse = false;

  /// Offset of the element of a row that is added up first.
  __device__ std::int64_t first(std::uint32_t row) const {
    std::uint32_t outer = row;
    const std::uint32_t column = inner.divide(outer);
    const std::int64_t place = reverse ? extent - 1 : 0;
    return (outer * extent + place) * inner.divisor() + column;
  }
  /// From each element to the one that follows.
  __device__ std::int64_t stride() const {
    const std::int64_t stride = inner.divisor();
    return reverse ? -stride : stride;
  }
};

/// A thread a row: neighbours are neighbours in memory.
template <typename T>
__global__ void sum_rows_by_threads(const T* in, T* out, const __grid_constant__ Rows rows) {
  const std::uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows.count) return;
  std::int64_t at = rows.first(row);
  auto sum = accumulated(T{});
  for (std::int64_t step = 0; step < rows.extent; ++step, at += rows.stride()) {
    const auto x = accumulated(in[at]);
    out[at] = narrowed<T>(rows.exclusive ? sum : sum + x);
    sum += x;
  }
}

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

/// A block a row, a part after the other.
template <typename T>
__global__ void __launch_bounds__(scan_threads)
    sum_rows_by_blocks(const T* in, T* out, const __grid_constant__ Rows rows) {
  using Wide = decltype(accumulated(T{}));
  __shared__ Wide totals[scan_warps];
  const std::int64_t first = rows.first(blockIdx.x);
  Wide carried{};
  for (std::int64_t part = 0; part < rows.extent; part += scan_threads) {
    const std::int64_t step = part + threadIdx.x;
    const std::int64_t at = first + step * rows.stride();
    const Wide x = step < rows.extent ? accumulated(in[at]) : Wide{};
    const Wide sum = carried + running_sum(x, rows.exclusive, totals);
    if (step < rows.extent) out[at] = narrowed<T>(sum);
    for (unsigned w = 0; w < scan_warps; ++w) carried += totals[w];
    __syncthreads();
  }
}

template <typename T>
class CumSumKernel final : public Kernel {
 public:
  explicit CumSumKernel(const KernelRequest& request) {
    const auto [exclusive, reverse, extents] = cumsum_arguments(request);
    elements_ = checked_count(request, request.inputs[0].elements());
    if (elements_ == 0) return;
    rows_ = {static_cast<std::uint32_t>(extents.rows()), extents.extent, FastDivisor(extents.inner),
             exclusive, reverse};
  }

  void run(const KernelIo& io) override {
    if (elements_ == 0) return;
    const T* in = io.inputs[0].as<const T>();
    T* out = io.outputs[0].as<T>();
    if (rows_.inner.divisor() >= 32)
      launch(stream_of(io), a_thread_each(rows_.count), sum_rows_by_threads<T>, in, out, rows_);
    else
      launch(stream_of(io), {dim3(rows_.count), dim3(scan_threads)}, sum_rows_by_blocks<T>, in, out,
             rows_);
  }

 private:
  std::uint32_t elements_ = 0;
  Rows rows_;
};

}  // namespace

std::unique_ptr<Kernel> make_cumsum(const KernelRequest& request) {
  std::unique_ptr<Kernel> kernel;
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(stored_type(type), Reducible{},
                  [&]<typename T>(T) { kernel = std::make_unique<CumSumKernel<T>>(request); }))
    fail_type(request, type);
  return kernel;
}

}  // namespace autopar::runtime::cuda
