#pragma once

#include <algorithm>

#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/fast_division.h"

/// The loops of kernels/common/loops.h: a thread a round, in the order of the stream.
namespace autopar::runtime::cuda {

template <typename Function>
__global__ void __launch_bounds__(unbounded_threads)
    loop_each(const __grid_constant__ Function f, std::int64_t n) {
  const std::int64_t i = global_thread();
  if (i < n) f(i);
}

template <typename Function>
__global__ void loop_rows(const __grid_constant__ Function f, std::int64_t n, std::int64_t rounds) {
  const std::int64_t i = global_thread();
  if (i < rounds) f(i / n)(i % n);
}

/// The same where rounds are counted in 31 bits, which are divided faster.
template <typename Function>
__global__ void loop_short_rows(const __grid_constant__ Function f, FastDivisor n,
                                std::uint32_t rounds) {
  std::uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rounds) return;
  const std::uint32_t i = n.divide(row);
  f(row)(i);
}

template <typename Function>
__global__ void loop_check(const __grid_constant__ Function f, std::int64_t n, FaultSlot fault) {
  const std::int64_t i = global_thread();
  if (i >= n) return;
  const auto looked_up = f(i);
  if (looked_up.index < 0 || looked_up.index >= looked_up.extent)
    fault.report(looked_up.index, looked_up.extent);
}

constexpr int sum_threads = 256;

/// A block a row, rows beyond the grid's size in further rounds.
template <typename W, typename Function, typename Finish>
__global__ void __launch_bounds__(sum_threads)
    loop_sums(const __grid_constant__ Function f, const __grid_constant__ Finish finish,
              std::int64_t rows, std::int64_t n) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto of_row = f(row);
    W sum = 0;
    for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += of_row(i);
    sum = reduce_block(sum, W{0}, Plus{});
    if (threadIdx.x == 0) finish(row, sum);
  }
}

class Loops {
 public:
  Loops(cudaStream_t stream, const FaultSlot& fault) : stream_(stream), fault_(fault) {}
  explicit Loops(const KernelRequest& request)
      : Loops(nullptr, device_of(request).faults().slot(request.node.name)) {}
  Loops on(const KernelIo& io) const { return {stream_of(io), fault_}; }

  template <typename Function>
  void check(std::int64_t n, const Function& f) const {
    if (n > 0) launch(stream_, a_thread_each(n), loop_check<Function>, f, n, fault_);
  }

  template <typename Function>
  void each(std::int64_t n, const Function& f) const {
    if (n > 0) launch(stream_, a_thread_each(n), loop_each<Function>, f, n);
  }

  template <typename Function>
  void rows(std::int64_t rows, std::int64_t n, const Function& f) const {
    const std::int64_t rounds = rows * n;
    if (rounds == 0) return;
    if (rounds < FastDivisor::limit && !counts_all_loops_long())
      launch(stream_, a_thread_each(rounds), loop_short_rows<Function>, f, FastDivisor(n), rounds);
    else
      launch(stream_, a_thread_each(rounds), loop_rows<Function>, f, n, rounds);
  }

  template <typename W, typename Function, typename Finish>
  void sums(std::int64_t rows, std::int64_t n, const Function& f, const Finish& finish) const {
    if (rows == 0) return;
    const std::int64_t warps = std::max<std::int64_t>(1, (n + warp_lanes - 1) / warp_lanes);
    const auto threads = std::min<std::int64_t>(warps * warp_lanes, sum_threads);
    const auto blocks = std::min<std::int64_t>(rows, std::int64_t{1} << 20);
    launch(stream_,
           {.grid = dim3(static_cast<unsigned>(blocks)),
            .block = dim3(static_cast<unsigned>(threads))},
           loop_sums<W, Function, Finish>, f, finish, rows, n);
  }

 private:
  cudaStream_t stream_;
  FaultSlot fault_;
};

}  // namespace autopar::runtime::cuda
