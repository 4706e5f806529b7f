#include "runtime/kernels/cpu/converted.h"

#include <omp.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>

#include "base/simd_clones.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/simd.h"

namespace autopar::runtime::cpu {
namespace {

template <typename T>
[[gnu::always_inline]] inline void widen_all(const T* from, std::int64_t n, float* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = to_float(from[i]);
}
template <typename T>
[[gnu::always_inline]] inline void narrow_all(const float* from, std::int64_t n, T* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = narrowed<T>(from[i]);
}

#if defined(__x86_64__)
// All processors with AVX2 have instructions for float16, too.
constexpr std::int64_t lanes = 8;

[[gnu::target("avx2,f16c")]] void widen_lanes(const Float16* from, std::int64_t n, float* to) {
  const std::int64_t whole = n / lanes * lanes;
  for (std::int64_t i = 0; i < whole; i += lanes)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  widen_all(from + whole, n - whole, to + whole);
}
[[gnu::target("avx2,f16c")]] void narrow_lanes(const float* from, std::int64_t n, Float16* to) {
  const std::int64_t whole = n / lanes * lanes;
  for (std::int64_t i = 0; i < whole; i += lanes)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  narrow_all(from + whole, n - whole, to + whole);
}
#endif

/// convert(first, count) for parts of n elements.
template <typename Convert>
void each_part(std::int64_t n, const Convert& convert) {
  constexpr std::int64_t least_part = 1 << 14;  // elements that are worth waking a thread for
  const int threads = std::max(1, omp_get_max_threads());
  const std::int64_t parts = std::clamp<std::int64_t>(n / least_part, 1, threads);
  for_in_threads(threads, parts, [&](std::int64_t part) {
    convert(n * part / parts, n * (part + 1) / parts - n * part / parts);
  });
}

}  // namespace

void widen(const Float16* from, std::int64_t n, float* to) {
#if defined(__x86_64__)
  if (simd_level() != SimdLevel::baseline) return widen_lanes(from, n, to);
#endif
  widen_all(from, n, to);
}
void narrow(const float* from, std::int64_t n, Float16* to) {
#if defined(__x86_64__)
  if (simd_level() != SimdLevel::baseline) return narrow_lanes(from, n, to);
#endif
  narrow_all(from, n, to);
}
AUTOPAR_SIMD_CLONES void widen(const BFloat16* from, std::int64_t n, float* to) {
  widen_all(from, n, to);
}
AUTOPAR_SIMD_CLONES void narrow(const float* from, std::int64_t n, BFloat16* to) {
  narrow_all(from, n, to);
}

void widen_halves(const TensorView& view, float* copy) {
  visit_type(view.type, Halves{}, [&]<typename T>(T) {
    each_part(view.elements(), [&](std::int64_t first, std::int64_t count) {
      widen(view.as<const T>() + first, count, copy + first);
    });
  });
}

void narrow_to_halves(const float* copy, const TensorView& view) {
  visit_type(view.type, Halves{}, [&]<typename T>(T) {
    each_part(view.elements(), [&](std::int64_t first, std::int64_t count) {
      narrow(copy + first, count, view.as<T>() + first);
    });
  });
}

}  // namespace autopar::runtime::cpu
