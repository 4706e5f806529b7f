#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_pad(const KernelRequest& request);
std::unique_ptr<Kernel> make_gather(const KernelRequest& request);
std::unique_ptr<Kernel> make_gather_elements(const KernelRequest& request);
std::unique_ptr<Kernel> make_gather_nd(const KernelRequest& request);
std::unique_ptr<Kernel> make_scatter_elements(const KernelRequest& request);
std::unique_ptr<Kernel> make_scatter_nd(const KernelRequest& request);
std::unique_ptr<Kernel> make_tensor_scatter(const KernelRequest& request);
std::unique_ptr<Kernel> make_reverse_sequence(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
