#pragma once

#include <vector>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// Operators whose kernels are written once for all devices, one line each: views, what only moves
/// elements, tensors made of what their nodes say, collectives. Every device's table begins with
/// them.
std::vector<KernelEntry> common_entries();

}  // namespace autopar::runtime
