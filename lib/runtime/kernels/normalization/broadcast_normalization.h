#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// Whether scale or bias of LayerNormalization or RMSNormalization is broadcast to the input, so
/// that rows do not all have the same.
bool has_broadcast_scale(const KernelRequest& request);

/// The normalisation alone, then times scale and plus bias; half types in float32 until the end.
std::unique_ptr<Kernel> make_broadcast_normalization(const KernelRequest& request);

}  // namespace autopar::runtime
