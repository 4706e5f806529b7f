#include "runtime/kernels/normalization/softmax_row.h"

#include "base/simd_clones.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/cpu/lane_sum.h"
#include "runtime/kernels/elementwise/math.h"

namespace autopar::runtime::cpu {
namespace {

template <typename T>
[[gnu::always_inline]] inline void mask_row(T* scores, std::int64_t n, const MaskRow& mask,
                                            T fill) {
  const auto add = [&]<typename M>(const M* values) {
    if (mask.stride == 1) {
      for (std::int64_t i = 0; i < n; ++i) scores[i] += static_cast<T>(widened(values[i]));
    } else {
      for (std::int64_t i = 0; i < n; ++i)
        scores[i] += static_cast<T>(widened(values[i * mask.stride]));
    }
  };
  switch (mask.type) {
    case graph::DataType::float32:
      return add(reinterpret_cast<const float*>(mask.data));
    case graph::DataType::float64:
      return add(reinterpret_cast<const double*>(mask.data));
    case graph::DataType::float16:
      return add(reinterpret_cast<const Float16*>(mask.data));
    case graph::DataType::bfloat16:
      return add(reinterpret_cast<const BFloat16*>(mask.data));
    default: {
      const auto* keeps = reinterpret_cast<const std::uint8_t*>(mask.data);
      for (std::int64_t i = 0; i < n; ++i)
        scores[i] = keeps[i * mask.stride] != 0 ? scores[i] : fill;
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void cap_row(T* scores, std::int64_t n, T cap) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) scores[i] = cap * math::tanh(scores[i] / cap);
}

template <typename T>
[[gnu::always_inline]] inline T exponentiate(T* scores, std::int64_t n) {
  const T largest = lane_largest(scores, n);
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const T e = math::exp_of_negative(scores[i] - largest);
    scores[i] = e;
    sum += e;
  }
  return sum;
}

}  // namespace

AUTOPAR_SIMD_CLONES void mask_scores(float* scores, std::int64_t n, const MaskRow& mask,
                                     float fill) {
  mask_row(scores, n, mask, fill);
}
void mask_scores(double* scores, std::int64_t n, const MaskRow& mask, double fill) {
  mask_row(scores, n, mask, fill);
}

AUTOPAR_SIMD_CLONES void cap_scores(float* scores, std::int64_t n, float cap) {
  cap_row(scores, n, cap);
}
void cap_scores(double* scores, std::int64_t n, double cap) { cap_row(scores, n, cap); }

AUTOPAR_SIMD_CLONES float exponentials(float* scores, std::int64_t n) {
  return exponentiate(scores, n);
}
double exponentials(double* scores, std::int64_t n) { return exponentiate(scores, n); }

AUTOPAR_SIMD_CLONES void scale_row(float* row, std::int64_t n, float factor) {
  for (std::int64_t i = 0; i < n; ++i) row[i] *= factor;
}
void scale_row(double* row, std::int64_t n, double factor) {
  for (std::int64_t i = 0; i < n; ++i) row[i] *= factor;
}

}  // namespace autopar::runtime::cpu
