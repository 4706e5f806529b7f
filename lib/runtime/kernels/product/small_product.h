#pragma once

#include <cstdint>
#include <memory>

#include "runtime/kernels/product/product.h"

namespace autopar::runtime::cpu {

/// out = scale a b of matrices that come with a run, as those of one head's attention. Strides are
/// in floats, those of `a` and `out` from row to row.
struct SmallProduct {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  float scale = 1;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  std::int64_t a_column_stride = 1;  ///< where it is another, a_stride is 1
  const float* b = nullptr;
  std::int64_t b_row_stride = 0;
  std::int64_t b_column_stride = 0;
  const float* bias = nullptr;  ///< [columns]; null where nothing is added
  float* out = nullptr;
  std::int64_t out_stride = 0;
};

/// Whether a matrix b is so small that a product takes no longer than a call of oneDNN's, and the
/// machine has AVX2. Whether it is does not depend on the rows, so that a row has the same product
/// whatever others are with it.
bool is_small_matrix(std::int64_t depth, std::int64_t columns);

/// Computes a product on this thread. `b` may have any number of columns, each of which alone
/// is_small_matrix.
void multiply_small(const SmallProduct& of);

/// A product of float32 by matrices that are not much larger; null for others, and where anything
/// but one number a column is added.
std::unique_ptr<Kernel> make_small_matmul(const KernelRequest& request, const Product& product);

}  // namespace autopar::runtime::cpu
