#pragma once

#include <memory>

#include "runtime/kernel.h"

/// oneDNN's poolings, in float32; null where it has no such form.
namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_onednn_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_onednn_max_pool(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
