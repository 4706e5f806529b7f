#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request);
/// LpPool and GlobalLpPool.
std::unique_ptr<Kernel> make_lp_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_resize(const KernelRequest& request);
std::unique_ptr<Kernel> make_grid_sample(const KernelRequest& request);
std::unique_ptr<Kernel> make_affine_grid(const KernelRequest& request);
std::unique_ptr<Kernel> make_deform_conv(const KernelRequest& request);
std::unique_ptr<Kernel> make_roi_align(const KernelRequest& request);
std::unique_ptr<Kernel> make_max_roi_pool(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
