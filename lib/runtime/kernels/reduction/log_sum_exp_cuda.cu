// ReduceLogSumExp: a block an output.

#include <cmath>
#include <limits>

#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/reduction/kernels.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int row_threads = 256;

template <typename T>
struct LogSumExp {
  const T* in;
  T* out;
  ReducedSpace kept;
  ReducedSpace reduced;
  std::int64_t row_elements;
};

/// The larger one; NaN is larger than all numbers.
struct Larger {
  __device__ double operator()(double x, double y) const { return x > y || x != x ? x : y; }
};

/// log(sum of exp(x)), in double, the largest x taken off first so that nothing overflows.
template <typename T>
__global__ void __launch_bounds__(row_threads) log_sum_exp_rows(LogSumExp<T> of) {
  const T* in = of.in + of.kept.offset(blockIdx.x);
  const auto element = [&](std::int64_t i) {
    return static_cast<double>(widened(in[of.reduced.offset(i)]));
  };
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  double largest = lowest;
  for (std::int64_t i = threadIdx.x; i < of.row_elements; i += blockDim.x)
    largest = Larger{}(element(i), largest);
  largest = reduce_block(largest, lowest, Larger{});
  // What is all -inf, or has an infinity, needs no shift and must not become NaN by it.
  const double shift = std::isfinite(largest) ? largest : 0;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < of.row_elements; i += blockDim.x)
    sum += std::exp(element(i) - shift);
  sum = reduce_block(sum, 0.0, Plus{});
  if (threadIdx.x == 0) of.out[blockIdx.x] = narrowed<T>(shift + std::log(sum));
}

template <typename T>
class ReduceLogSumExp final : public Kernel {
 public:
  ReduceLogSumExp(const KernelRequest& request, const ReducedDimensions& of)
      : rows_(of.rows()),
        of_{nullptr, nullptr, {request, of.kept}, {request, of.reduced}, of.row_elements()} {}

  void run(const KernelIo& io) override {
    if (rows_ == 0) return;
    LogSumExp<T> of = of_;
    of.in = io.inputs[0].as<const T>();
    of.out = io.outputs[0].as<T>();
    launch(stream_of(io), {dim3(static_cast<unsigned>(rows_)), dim3(row_threads)},
           log_sum_exp_rows<T>, of);
  }

 private:
  std::int64_t rows_;
  LogSumExp<T> of_;
};

}  // namespace

std::unique_ptr<Kernel> make_log_sum_exp_by_blocks(const KernelRequest& request) {
  const ReducedDimensions of(request);
  if (of.row_elements() <= warp_lanes) return nullptr;
  return kernel_for_type(request, request.inputs[0].type, AllNumbers{}, [&]<typename T>(T) {
    return std::make_unique<ReduceLogSumExp<T>>(request, of);
  });
}

}  // namespace autopar::runtime::cuda
