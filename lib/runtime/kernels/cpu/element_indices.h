#pragma once

#include <string>

#include "runtime/kernel.h"

namespace autopar::runtime::cpu {

/// The indices of GatherElements and ScatterElements: each names the element of the data at its own
/// place, but along the axis.
class ElementIndices {
 public:
  explicit ElementIndices(const KernelRequest& request);

  /// Of the element that index `i` names, in elements; Error where it is out of range.
  std::int64_t offset(const TensorView& indices, std::int64_t i) const;

 private:
  std::string node_;
  std::size_t axis_;
  std::int64_t extent_;
  Shape strides_;  ///< of the data
  Shape shape_;    ///< of the indices
};

}  // namespace autopar::runtime::cpu
