#pragma once

#include <cstdint>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// Where the scale, and the zero point, of each element of a QuantizeLinear or DequantizeLinear
/// lies: the tensor is *rows* of `inner` elements, `extent` of them for each of `outer`. Per
/// tensor, per axis and by blocks differ in strides alone.
struct QuantizationLayout {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
  std::int64_t block = 1;  ///< rows along the extent that share their scales
  std::int64_t outer_stride = 0;
  std::int64_t block_stride = 0;
  std::int64_t inner_stride = 0;  ///< 0 or 1

  std::int64_t rows() const { return outer * extent; }
};

/// Throws Error naming the node where scale and data do not fit together, or the zero point is not
/// like the scale.
QuantizationLayout quantization_layout(const KernelRequest& request);

/// In which type QuantizeLinear divides.
DataType division_type(const KernelRequest& request);

}  // namespace autopar::runtime
