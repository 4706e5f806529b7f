#pragma once

#include <string>

#include "runtime/kernels/movement/indexing.h"

namespace autopar::runtime::cpu {

/// The indices of GatherElements and ScatterElements.
class ElementIndices {
 public:
  explicit ElementIndices(const KernelRequest& request);

  /// The offset, in elements, of the element that index `i` names; Error where it is out of range.
  std::int64_t offset(const TensorView& indices, std::int64_t i) const;

 private:
  std::string node_;
  ElementIndexing indexing_;
};

}  // namespace autopar::runtime::cpu
