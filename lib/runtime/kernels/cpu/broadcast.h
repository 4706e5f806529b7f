#pragma once

#include "runtime/kernels/common/strides.h"

namespace autopar::runtime::cpu {

/// One operand of a broadcast, read along the flat index of the output. Since operands are
/// contiguous, the innermost merged stride is 1 or 0.
class BroadcastOperand {
 public:
  /// `shape` and `strides` are merged.
  BroadcastOperand(Shape shape, std::vector<std::int64_t> strides, int element_bytes);

  /// One element for the whole output.
  bool is_uniform() const { return uniform_; }
  /// The operand's elements for output elements [begin, begin + n): where they lie, if they lie
  /// together, else put together in `buffer`.
  const std::byte* read(const std::byte* data, std::int64_t begin, std::int64_t n,
                        std::byte* buffer) const;

 private:
  Shape shape_;
  std::vector<std::int64_t> strides_;
  int element_bytes_;
  bool contiguous_ = false;
  bool uniform_ = false;
};

/// `n` copies of the element at `element`.
void fill(std::byte* out, const std::byte* element, std::int64_t n, int element_bytes);

}  // namespace autopar::runtime::cpu
