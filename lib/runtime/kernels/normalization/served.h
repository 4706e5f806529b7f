#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/kernel.h"

/// The masks that CUDA's MaskedSoftmax takes.
namespace autopar::runtime::cuda {

/// A mask's strides along rows, merged, and along columns.
struct MaskLayout {
  static constexpr int max_dimensions = 4;

  Shape extents;
  std::vector<std::int64_t> strides;
  std::int64_t column_stride = 0;
};
/// nullopt where MaskedSoftmax does not take the mask, input 1, to input 0.
std::optional<MaskLayout> mask_layout(std::span<const TensorView> inputs);

Serves serves_masked_softmax;

}  // namespace autopar::runtime::cuda
