#pragma once

#include <span>

#include "runtime/device.h"

namespace autopar::runtime::cuda {

/// Copies tensors that lie in pageable memory, a mapped file most often, to the current GPU.
/// Threads take pieces in turn, each with two pinned buffers: it fills one while the other is on
/// its way.
void upload(std::span<const Device::Upload> tensors);

}  // namespace autopar::runtime::cuda
