#pragma once

#include "runtime/kernel.h"

namespace autopar::runtime::cpu {

/// Copies elements of one shape between two layouts, each given by its strides in elements: what
/// Transpose, Slice, Split, Concat, Expand, Tile and Pad are made of. Input strides may be 0 or
/// negative.
class StridedCopy {
 public:
  StridedCopy(Shape shape, std::vector<std::int64_t> in_strides,
              std::vector<std::int64_t> out_strides, int element_bytes);

  /// `in` and `out` point to the first element of each.
  void run(const std::byte* in, std::byte* out, int threads) const;

 private:
  /// A matrix inside the shape: rows and columns with the strides of both layouts. The columns are
  /// the output's innermost dimension; the rows are the input's, where that is another one.
  struct Matrix {
    std::int64_t rows = 1;
    std::int64_t columns = 1;
    std::int64_t in_row = 0;
    std::int64_t in_column = 1;
    std::int64_t out_row = 0;
    std::int64_t out_column = 1;
  };
  template <typename T>
  void run_typed(const T* in, T* out, int threads) const;
  template <typename T>
  static void copy_rows(const Matrix& matrix, const T* in, T* out);

  Shape outer_;
  std::vector<std::int64_t> in_strides_;
  std::vector<std::int64_t> out_strides_;
  Matrix matrix_;
  int element_bytes_;
};

}  // namespace autopar::runtime::cpu
