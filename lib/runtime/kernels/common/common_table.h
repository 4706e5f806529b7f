#pragma once

#include <span>
#include <vector>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// A device's table: operators whose kernels are written once for all devices (views, what only
/// moves elements, tensors made of what their nodes say, collectives), its own lines, and the
/// element-wise operators, whose kernels `make_elementwise` makes, but for those that have a line.
std::vector<KernelEntry> device_entries(std::span<const KernelEntry> own,
                                        KernelFactory make_elementwise);

}  // namespace autopar::runtime
