#pragma once

#include "runtime/kernel.h"

namespace autopar::runtime {

/// The strides with which a contiguous tensor of `shape` is read along `to`, to which it is
/// broadcast: 0 along dimensions that repeat it. Empty where it cannot be broadcast so.
std::vector<std::int64_t> broadcast_strides(const Shape& shape, const Shape& to);

/// A tensor's dimensions in some order, and the elements from one to the next along each.
struct StridedShape {
  Shape dims;
  std::vector<std::int64_t> strides;

  /// The strides of the tensor as it is stored.
  explicit StridedShape(const Shape& stored);
};
/// The strides in which Transpose with this permutation reads it; an empty permutation leaves all
/// in place.
StridedShape permuted(const Shape& stored, const std::vector<std::int64_t>& permutation);
/// The permutation that undoes another.
std::vector<std::int64_t> inverse(const std::vector<std::int64_t>& permutation);

/// Joins neighbouring dimensions that every operand walks in one stride and drops those of extent
/// 1, so that inner loops are long. `strides` has one list an operand.
void merge_dimensions(Shape& shape, const std::vector<std::vector<std::int64_t>*>& strides);

}  // namespace autopar::runtime
