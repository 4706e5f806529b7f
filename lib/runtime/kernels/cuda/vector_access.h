#pragma once

#include "runtime/kernels/cuda/launch.h"

namespace autopar::runtime::cuda {

/// N elements that are read and written at once: 16 bytes at most.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  static_assert(sizeof(T) * N <= 16);
  T values[N];
};

/// How many elements of T make 16 bytes.
template <typename T>
inline constexpr int full_pack = 16 / static_cast<int>(sizeof(T));

template <typename T, int N>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
/// 16 bytes of what is read once, by this thread alone, and need not stay in caches.
__device__ __forceinline__ uint4 load_streamed(const void* from) {
  return __ldcs(static_cast<const uint4*>(from));
}
template <typename T, int N>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// Whether packs of `bytes` can be read at `pointer` and every multiple of `stride_bytes` after it.
inline bool is_aligned(const void* pointer, std::int64_t stride_bytes, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0 &&
         stride_bytes % bytes == 0;
}

}  // namespace autopar::runtime::cuda
