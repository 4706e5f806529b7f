#pragma once

#include <bit>

#include "runtime/kernels/common/element_types.h"
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
template <typename T, int N>
__device__ __forceinline__ void store_pack(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// The elements that lie in 16 bytes, as numbers.
template <typename T>
__device__ __forceinline__ void widen(const uint4& words, float (&values)[full_pack<T>]) {
  const auto pack = std::bit_cast<Pack<T, full_pack<T>>>(words);
#pragma unroll
  for (int i = 0; i < full_pack<T>; ++i) values[i] = widened(pack.values[i]);
}
/// Two a word: one instruction each.
template <>
__device__ __forceinline__ void widen<BFloat16>(const uint4& words, float (&values)[8]) {
  const unsigned each[] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = std::bit_cast<float>(each[i] << 16);
    values[2 * i + 1] = std::bit_cast<float>(each[i] & 0xFFFF0000U);
  }
}

/// Whether packs of `bytes` can be read at `pointer` and every multiple of `stride_bytes` after it.
inline bool is_aligned(const void* pointer, std::int64_t stride_bytes, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0 &&
         stride_bytes % bytes == 0;
}

}  // namespace autopar::runtime::cuda
