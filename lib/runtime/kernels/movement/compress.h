#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// Compress by a constant condition, for all devices: a Gather of what it keeps.
std::unique_ptr<Kernel> make_compress(const KernelRequest& request);

}  // namespace autopar::runtime
