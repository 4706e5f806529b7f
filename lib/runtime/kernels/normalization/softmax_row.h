#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/data_type.h"

namespace autopar::runtime::cpu {

/// A mask as a row of scores meets it, broadcast as its strides say.
struct MaskRow {
  const std::byte* data = nullptr;  ///< of the row's first score; null where there is no mask
  graph::DataType type = graph::DataType::undefined;
  std::int64_t stride = 1;  ///< in elements, from one score to the next
};

/// Adds a mask of numbers to n scores, or puts `fill` where a boolean one is false.
void mask_scores(float* scores, std::int64_t n, const MaskRow& mask, float fill);
void mask_scores(double* scores, std::int64_t n, const MaskRow& mask, double fill);

/// cap tanh(x / cap)
void cap_scores(float* scores, std::int64_t n, float cap);
void cap_scores(double* scores, std::int64_t n, double cap);

/// exp(x - largest) in the place of n scores; returns their sum. NaN, or no number above -infinity,
/// makes the sum NaN.
float exponentials(float* scores, std::int64_t n);
double exponentials(double* scores, std::int64_t n);

void scale_row(float* row, std::int64_t n, float factor);
void scale_row(double* row, std::int64_t n, double factor);

}  // namespace autopar::runtime::cpu
