#include "runtime/kernels/cpu/converted.h"

#include <omp.h>

#include <algorithm>

#include "base/simd_clones.h"

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

AUTOPAR_SIMD_CLONES void widen(const Float16* from, std::int64_t n, float* to) {
  widen_all(from, n, to);
}
AUTOPAR_SIMD_CLONES void widen(const BFloat16* from, std::int64_t n, float* to) {
  widen_all(from, n, to);
}
AUTOPAR_SIMD_CLONES void narrow(const float* from, std::int64_t n, Float16* to) {
  narrow_all(from, n, to);
}
AUTOPAR_SIMD_CLONES void narrow(const float* from, std::int64_t n, BFloat16* to) {
  narrow_all(from, n, to);
}

/// convert(first, count) for parts of n elements.
template <typename Convert>
void each_part(std::int64_t n, const Convert& convert) {
  constexpr std::int64_t least_part = 1 << 14;  // elements that are worth waking a thread for
  const std::int64_t parts =
      std::clamp<std::int64_t>(n / least_part, 1, std::max(1, omp_get_max_threads()));
#pragma omp parallel for if (parts > 1)
  for (std::int64_t part = 0; part < parts; ++part)
    convert(n * part / parts, n * (part + 1) / parts - n * part / parts);
}

}  // namespace

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
