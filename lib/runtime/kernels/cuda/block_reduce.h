#pragma once

#include <type_traits>

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/cuda/launch.h"

/// Reductions over a warp and a block, always in the same order, so that results never vary.
namespace autopar::runtime::cuda {

inline constexpr unsigned all_lanes = 0xffffffffU;
inline constexpr int warp_lanes = 32;

/// A number as warps exchange it, in at least 32 bits.
template <typename T>
using ShuffledNumber =
    std::conditional_t<std::is_floating_point_v<Widened<T>> || sizeof(T) == 8, Widened<T>,
                       std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>;

struct Plus {
  template <typename W>
  __device__ W operator()(W x, W y) const {
    return x + y;
  }
};

/// Every lane gets the result. All lanes of the warp call it.
template <typename T, typename Take>
__device__ __forceinline__ T reduce_warp(T value, Take take) {
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
    value = take(value, __shfl_xor_sync(all_lanes, value, distance));
  return value;
}

/// Every thread gets the result. All threads of a block of whole warps, at most 1024 threads, call
/// it. `start` changes nothing when it is taken in.
template <typename T, typename Take>
__device__ __forceinline__ T reduce_block(T value, T start, Take take) {
  __shared__ T of_warps[warp_lanes];
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const int warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const int warps = static_cast<int>(blockDim.x) / warp_lanes;
  value = reduce_warp(value, take);
  __syncthreads();  // the last call's results have been read
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  return reduce_warp(lane < warps ? of_warps[lane] : start, take);
}

}  // namespace autopar::runtime::cuda
