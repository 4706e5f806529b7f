#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/tensor.h"

namespace autopar::onnx_runtime {

enum class Direction { to_tensor, from_tensor };

/// A row-major tensor cut along a dimension into blocks of `sizes`, one a rank, each packed, one
/// after another.
class Blocks {
 public:
  /// Sizes are of whole bytes an element, and `sizes` add up to the extent.
  Blocks(std::int64_t element_bytes, const graph::Shape& shape, std::size_t dim,
         std::vector<std::int64_t> sizes);

  std::vector<std::int64_t> elements() const { return scaled(outer_ * inner_); }
  std::vector<std::int64_t> bytes() const { return scaled(outer_ * inner_ * element_bytes_); }
  std::int64_t total_bytes() const { return outer_ * row_bytes_; }
  /// Blocks lie one after another in the tensor already.
  bool are_in_tensor() const { return outer_ == 1; }
  void copy(std::byte* tensor, std::byte* packed, Direction direction) const;

 private:
  std::vector<std::int64_t> scaled(std::int64_t factor) const;

  std::int64_t element_bytes_;
  std::int64_t outer_ = 1;  ///< elements of the dimensions before
  std::int64_t inner_ = 1;  ///< and of those behind
  std::int64_t row_bytes_ = 0;
  std::vector<std::int64_t> sizes_;
};

/// Copies a box of a row-major tensor of that shape to packed memory, or from there.
void copy_box(std::int64_t element_bytes, const graph::Shape& shape,
              std::span<const graph::Range> box, std::byte* tensor, std::byte* packed,
              Direction direction);

}  // namespace autopar::onnx_runtime
