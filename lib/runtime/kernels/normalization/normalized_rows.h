#pragma once

#include <cstdint>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// What LayerNormalization and RMSNormalization say, for all devices: the input as rows over its
/// trailing dimensions.
struct NormalizedRows {
  std::int64_t count = 1;
  std::int64_t extent = 1;
  float epsilon = 1e-5F;

  /// Throws Error for a type that is no float, or a scale or bias that is not of a row's size.
  explicit NormalizedRows(const KernelRequest& request);
};

/// Whether scale or bias of LayerNormalization or RMSNormalization is broadcast to the input, so
/// that rows do not all have the same.
bool has_broadcast_scale(const KernelRequest& request);
/// The normalisation alone, then times scale and plus bias; half types in float32 until the end.
MakeKernel make_broadcast_normalization;

}  // namespace autopar::runtime
