#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "vector_types.h"

// What kernels find without an include: positions, barriers, warp operations, atomics, intrinsics.

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

namespace autopar::emulation {

/// How a block's barrier combines what the threads bring.
enum class BarrierKind { kNone, kCount, kAnd, kOr };
int barrier(BarrierKind kind, bool predicate, std::source_location where);
int lane_id();
void exchange(const char* operation, unsigned mask, const void* mine, void* all, std::size_t bytes,
              std::source_location where);
[[noreturn]] void trap();

/// What all lanes of `mask` bring to the operation.
template <typename T>
struct Lanes {
  T values[32];

  Lanes(const char* operation, unsigned mask, T mine, std::source_location where) {
    exchange(operation, mask, &mine, values, sizeof(T), where);
  }

  template <typename Combine>
  T reduce(unsigned mask, Combine combine) const {
    int lane = std::countr_zero(mask);
    T result = values[lane];
    while (++lane < 32) {
      if (mask >> lane & 1) result = combine(result, values[lane]);
    }
    return result;
  }
};

template <typename T>
concept ShuffleType = std::is_trivially_copyable_v<T> &&
    (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);

template <typename T, typename... Allowed>
concept OneOf = (std::same_as<T, Allowed> || ...);

/// The argument that follows a pointer converts to what the pointer points to.
template <typename T>
using Value = std::type_identity_t<T>;

template <typename T, typename Change>
T atomic_change(T* address, Change change) {
  std::atomic_ref<T> atomic(*address);
  T old = atomic.load(std::memory_order_relaxed);
  while (!atomic.compare_exchange_weak(old, change(old))) {
  }
  return old;
}

}  // namespace autopar::emulation

// ---- Barriers -----------------------------------------------------------------------------------

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  autopar::emulation::barrier(autopar::emulation::BarrierKind::kNone, false, where);
}
inline int __syncthreads_count(int predicate,
                               std::source_location where = std::source_location::current()) {
  return autopar::emulation::barrier(autopar::emulation::BarrierKind::kCount, predicate, where);
}
inline int __syncthreads_and(int predicate,
                             std::source_location where = std::source_location::current()) {
  return autopar::emulation::barrier(autopar::emulation::BarrierKind::kAnd, predicate, where);
}
inline int __syncthreads_or(int predicate,
                            std::source_location where = std::source_location::current()) {
  return autopar::emulation::barrier(autopar::emulation::BarrierKind::kOr, predicate, where);
}

inline void __threadfence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { autopar::emulation::trap(); }

// Programmatic dependent launch: a kernel starts here when those before it have ended.
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

// ---- Warp operations ----------------------------------------------------------------------------
// A lane that is not in the mask holds 0xFF bytes for those that read it.

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       std::source_location where = std::source_location::current()) {
  autopar::emulation::exchange("__syncwarp", mask, nullptr, nullptr, 0, where);
}

/// Lanes converge only where they are made to, so that a thread may count on itself alone.
inline unsigned __activemask() { return 1u << autopar::emulation::lane_id(); }

template <autopar::emulation::ShuffleType T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              std::source_location where = std::source_location::current()) {
  const autopar::emulation::Lanes<T> lanes("__shfl_sync", mask, value, where);
  const int first = autopar::emulation::lane_id() & ~(width - 1);
  return lanes.values[first + (source & (width - 1))];
}

template <autopar::emulation::ShuffleType T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 std::source_location where = std::source_location::current()) {
  const autopar::emulation::Lanes<T> lanes("__shfl_up_sync", mask, value, where);
  const int lane = autopar::emulation::lane_id();
  const int first = lane & ~(width - 1);
  return static_cast<int>(delta) <= lane - first ? lanes.values[lane - delta] : value;
}

template <autopar::emulation::ShuffleType T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   std::source_location where = std::source_location::current()) {
  const autopar::emulation::Lanes<T> lanes("__shfl_down_sync", mask, value, where);
  const int lane = autopar::emulation::lane_id();
  const int last = lane | (width - 1);
  return static_cast<int>(delta) <= last - lane ? lanes.values[lane + delta] : value;
}

template <autopar::emulation::ShuffleType T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  std::source_location where = std::source_location::current()) {
  const autopar::emulation::Lanes<T> lanes("__shfl_xor_sync", mask, value, where);
  const int lane = autopar::emulation::lane_id();
  const int source = (lane ^ lane_mask) & 31;
  return source <= (lane | (width - 1)) ? lanes.values[source] : value;
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location where = std::source_location::current()) {
  const unsigned bit = unsigned{predicate != 0} << autopar::emulation::lane_id();
  const autopar::emulation::Lanes<unsigned> lanes("__ballot_sync", mask, bit, where);
  return lanes.reduce(mask, [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location where = std::source_location::current()) {
  return __ballot_sync(mask, predicate, where) == mask;
}

template <autopar::emulation::ShuffleType T>
unsigned __match_any_sync(unsigned mask, T value,
                          std::source_location where = std::source_location::current()) {
  const autopar::emulation::Lanes<T> lanes("__match_any_sync", mask, value, where);
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1 && std::memcmp(&lanes.values[lane], &value, sizeof(T)) == 0) {
      same |= 1u << lane;
    }
  }
  return same;
}

#define AUTOPAR_WARP_REDUCTION(name, type, expression)                             \
  inline type name(unsigned mask, type value,                                      \
                   std::source_location where = std::source_location::current()) { \
    return autopar::emulation::Lanes<type>(#name, mask, value, where)              \
        .reduce(mask, [](type a, type b) -> type { return expression; });          \
  }
AUTOPAR_WARP_REDUCTION(__reduce_add_sync, unsigned, a + b)
AUTOPAR_WARP_REDUCTION(__reduce_add_sync, int, a + b)
AUTOPAR_WARP_REDUCTION(__reduce_min_sync, unsigned, std::min(a, b))
AUTOPAR_WARP_REDUCTION(__reduce_min_sync, int, std::min(a, b))
AUTOPAR_WARP_REDUCTION(__reduce_max_sync, unsigned, std::max(a, b))
AUTOPAR_WARP_REDUCTION(__reduce_max_sync, int, std::max(a, b))
AUTOPAR_WARP_REDUCTION(__reduce_and_sync, unsigned, a& b)
AUTOPAR_WARP_REDUCTION(__reduce_or_sync, unsigned, a | b)
AUTOPAR_WARP_REDUCTION(__reduce_xor_sync, unsigned, a ^ b)
#undef AUTOPAR_WARP_REDUCTION

// ---- Atomics ------------------------------------------------------------------------------------
// Real ones: several devices run in several host threads. Each returns the old value.

#define AUTOPAR_ATOMIC(name, expression, ...)                                  \
  template <autopar::emulation::OneOf<__VA_ARGS__> T>                          \
  T name(T* address, autopar::emulation::Value<T> value) {                     \
    return autopar::emulation::atomic_change(                                  \
        address, [value]([[maybe_unused]] T old) -> T { return expression; }); \
  }
AUTOPAR_ATOMIC(atomicAdd, old + value, int, unsigned, unsigned long long, float, double)
AUTOPAR_ATOMIC(atomicSub, old - value, int, unsigned)
AUTOPAR_ATOMIC(atomicMax, std::max(old, value), int, unsigned, long long, unsigned long long)
AUTOPAR_ATOMIC(atomicMin, std::min(old, value), int, unsigned, long long, unsigned long long)
AUTOPAR_ATOMIC(atomicAnd, old& value, int, unsigned, unsigned long long)
AUTOPAR_ATOMIC(atomicOr, old | value, int, unsigned, unsigned long long)
AUTOPAR_ATOMIC(atomicXor, old ^ value, int, unsigned, unsigned long long)
AUTOPAR_ATOMIC(atomicExch, value, int, unsigned, unsigned long long, float)
AUTOPAR_ATOMIC(atomicInc, old >= value ? 0 : old + 1, unsigned)
AUTOPAR_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1, unsigned)
#undef AUTOPAR_ATOMIC

template <autopar::emulation::OneOf<int, unsigned, unsigned long long, unsigned short> T>
T atomicCAS(T* address, autopar::emulation::Value<T> compare, autopar::emulation::Value<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value);
  return compare;
}

// ---- Loads and stores with hints ----------------------------------------------------------------

#define AUTOPAR_LOAD(name)   \
  template <typename T>      \
  T name(const T* address) { \
    return *address;         \
  }
AUTOPAR_LOAD(__ldg)
AUTOPAR_LOAD(__ldca)
AUTOPAR_LOAD(__ldcg)
AUTOPAR_LOAD(__ldcs)
AUTOPAR_LOAD(__ldlu)
AUTOPAR_LOAD(__ldcv)
#undef AUTOPAR_LOAD

#define AUTOPAR_STORE(name)                                   \
  template <typename T>                                       \
  void name(T* address, autopar::emulation::Value<T> value) { \
    *address = value;                                         \
  }
AUTOPAR_STORE(__stwb)
AUTOPAR_STORE(__stcg)
AUTOPAR_STORE(__stcs)
AUTOPAR_STORE(__stwt)
#undef AUTOPAR_STORE

inline std::size_t __cvta_generic_to_shared(const void* pointer) {
  return reinterpret_cast<std::size_t>(pointer);
}
inline std::size_t __cvta_generic_to_global(const void* pointer) {
  return reinterpret_cast<std::size_t>(pointer);
}

// ---- Bits ---------------------------------------------------------------------------------------

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline int __ffsll(long long x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned long long>(x)) + 1;
}
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{y} << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned choice = selector >> (4 * i);
    const std::uint64_t byte = bytes >> (8 * (choice & 7)) & 0xff;
    result |= static_cast<unsigned>(choice & 8 ? (byte >> 7) * 0xff : byte) << (8 * i);
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31));
}
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(std::uint64_t{x} * y >> 32);
}
inline int __mulhi(int x, int y) { return static_cast<int>(std::int64_t{x} * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(static_cast<Wide>(x) * y >> 64);
}

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }

// ---- Arithmetic ---------------------------------------------------------------------------------
// CUDA's names that <cmath> lacks; fast ones are as exact as the host's.

inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0f, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline float __tanhf(float x) { return std::tanh(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0 ? std::min(x, 1.0f) : 0.0f; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1 / std::sqrt(double{x})); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __fma_rn(double x, double y, double z) { return std::fma(x, y, z); }
inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(double{x})); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
