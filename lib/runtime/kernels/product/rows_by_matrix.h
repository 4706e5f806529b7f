#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace autopar::runtime::cpu {

/// Rows in the order of the matrices that they go through, so that each matrix is read once. Makes
/// no memory after it is made.
class RowsByMatrix {
 public:
  RowsByMatrix(std::int64_t rows, std::int64_t matrices)
      : order_(static_cast<std::size_t>(rows)), ends_(static_cast<std::size_t>(matrices)) {}

  /// Counting; `matrix_of(row)` is the row's matrix. Rows of one matrix stay in order.
  template <typename MatrixOf>
  void sort(MatrixOf matrix_of) {
    std::fill(ends_.begin(), ends_.end(), 0);
    const auto rows = static_cast<std::int64_t>(order_.size());
    for (std::int64_t row = 0; row < rows; ++row) ++ends_[matrix_of(row)];
    for (std::size_t m = 1; m < ends_.size(); ++m) ends_[m] += ends_[m - 1];
    // From the back: each end becomes a begin.
    for (std::int64_t row = rows; row-- > 0;)
      order_[static_cast<std::size_t>(--ends_[matrix_of(row)])] = row;
    for (std::size_t m = 1; m < ends_.size(); ++m) ends_[m - 1] = ends_[m];
    if (!ends_.empty()) ends_.back() = rows;
  }

  std::span<const std::int64_t> rows_of(std::int64_t matrix) const {
    const auto m = static_cast<std::size_t>(matrix);
    const std::int64_t begin = m == 0 ? 0 : ends_[m - 1];
    return std::span(order_).subspan(static_cast<std::size_t>(begin),
                                     static_cast<std::size_t>(ends_[m] - begin));
  }

 private:
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> ends_;  ///< in `order_`, of each matrix's rows
};

}  // namespace autopar::runtime::cpu
