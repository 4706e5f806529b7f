#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_conv(const KernelRequest& request);
std::unique_ptr<Kernel> make_conv_transpose(const KernelRequest& request);
/// ConvTranspose by its definition.
std::unique_ptr<Kernel> make_conv_transpose_loops(const KernelRequest& request);
std::unique_ptr<Kernel> make_col2im(const KernelRequest& request);
std::unique_ptr<Kernel> make_max_unpool(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
