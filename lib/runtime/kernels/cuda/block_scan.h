#pragma once

#include "runtime/kernels/cuda/block_reduce.h"

/// Running results over a block's threads, always in the same order.
namespace autopar::runtime::cuda {

/// A scan, and the shared memory that it takes.
template <typename W>
struct BlockScan {
  W of_warps[warp_lanes];

  /// What `take` makes of the threads before this one, and of this one's `x` unless `exclusive`.
  /// `start` changes nothing when it is taken in. All threads of a block of whole warps call it,
  /// and meet by __syncthreads() before they call it again.
  template <typename Take>
  __device__ W scan(W x, W start, bool exclusive, Take take) {
    const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
    const int warp = static_cast<int>(threadIdx.x) / warp_lanes;
    for (int distance = 1; distance < warp_lanes; distance *= 2) {
      const W before = __shfl_up_sync(all_lanes, x, distance);
      if (lane >= distance) x = take(before, x);
    }
    if (lane == warp_lanes - 1) of_warps[warp] = x;
    if (exclusive) {
      x = __shfl_up_sync(all_lanes, x, 1);
      if (lane == 0) x = start;
    }
    __syncthreads();
    return take(result_of(warp, start, take), x);
  }

  /// The result of all threads, after scan().
  template <typename Take>
  __device__ W total(W start, Take take) const {
    return result_of(static_cast<int>(blockDim.x) / warp_lanes, start, take);
  }

 private:
  template <typename Take>
  __device__ W result_of(int warps, W start, Take take) const {
    for (int w = 0; w < warps; ++w) start = take(start, of_warps[w]);
    return start;
  }
};

}  // namespace autopar::runtime::cuda
