#pragma once

#include <algorithm>
#include <string>

#include "runtime/kernels/movement/indexing.h"

namespace autopar::runtime::cpu {

/// An ElementIndexing as loops: indices are [outer, along, inner] around the axis, and all that
/// share a place in outer and inner, a *line*, name elements of one line of the data. Lines have
/// nothing to do with one another.
struct ElementLines {
  explicit ElementLines(const ElementIndexing& indexing);

  std::int64_t outer = 1;
  std::int64_t along = 1;
  std::int64_t inner = 1;
  std::int64_t extent = 0;  ///< of the data along the axis
  std::int64_t step = 1;    ///< between its elements of one line
  Shape outer_shape;
  Shape outer_strides;  ///< of the data
  Shape inner_shape;
  Shape inner_strides;
  bool is_inner_whole = true;  ///< the data has no more inner elements than the indices

  std::int64_t count() const { return outer * along * inner; }
  std::int64_t begin_of(std::int64_t of_outer) const {
    return offset_of(of_outer, outer_shape, outer_strides);
  }

  /// Error naming `node` where an index is out of range.
  void check(const TensorView& indices, const std::string& node) const;
  /// Whether so many indices are in range.
  bool are_in_range(const std::int32_t* indices, std::int64_t n) const;
  bool are_in_range(const std::int64_t* indices, std::int64_t n) const;

  /// Indices are rows that follow one another: along the axis where it is the innermost, else
  /// across lines.
  bool is_innermost() const { return inner == 1; }
  std::int64_t rows() const { return is_innermost() ? outer : outer * along; }
  std::int64_t row_length() const { return is_innermost() ? along : inner; }

  /// Calls `move(element of the data, its place among the indices)` for [first, last) of a row.
  template <typename Index, typename Move>
  void each(const Index* indices, std::int64_t row, std::int64_t first, std::int64_t last,
            const Move& move) const {
    const std::int64_t begin = begin_of(is_innermost() ? row : row / along);
    const std::int64_t place_of_row = row * row_length();
    const auto move_all = [&](const auto& offset) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t index = indices[place_of_row + i];
        move(begin + offset(i) + (index < 0 ? index + extent : index) * step, place_of_row + i);
      }
    };
    if (is_innermost())
      move_all([](std::int64_t) { return 0; });
    else if (is_inner_whole)
      move_all([](std::int64_t i) { return i; });
    else
      move_all([&](std::int64_t i) { return offset_of(i, inner_shape, inner_strides); });
  }

 private:
  static std::int64_t offset_of(std::int64_t place, const Shape& shape, const Shape& strides) {
    std::int64_t offset = 0;
    for (std::size_t d = shape.size(); d-- > 0; place /= shape[d])
      offset += place % shape[d] * strides[d];
    return offset;
  }
};

/// Calls `run(indices)` with a pointer to integers of the tensor's type.
template <typename Run>
void with_integers(const TensorView& indices, const Run& run) {
  if (indices.type == DataType::int32)
    run(indices.as<const std::int32_t>());
  else
    run(indices.as<const std::int64_t>());
}

}  // namespace autopar::runtime::cpu
