#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Every operator of operators.h.
std::unique_ptr<Kernel> make_elementwise(const KernelRequest& request);
/// Cast and CastLike: element-wise unless a type is one that no operator computes in.
std::unique_ptr<Kernel> make_cast(const KernelRequest& request);
std::unique_ptr<Kernel> make_elementwise_chain(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
