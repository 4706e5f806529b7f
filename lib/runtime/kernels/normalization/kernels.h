#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_softmax(const KernelRequest& request);
std::unique_ptr<Kernel> make_log_softmax(const KernelRequest& request);
std::unique_ptr<Kernel> make_masked_softmax(const KernelRequest& request);
std::unique_ptr<Kernel> make_layer_normalization(const KernelRequest& request);
std::unique_ptr<Kernel> make_rms_normalization(const KernelRequest& request);
std::unique_ptr<Kernel> make_batch_normalization(const KernelRequest& request);
/// GroupNormalization and InstanceNormalization.
std::unique_ptr<Kernel> make_group_normalization(const KernelRequest& request);
std::unique_ptr<Kernel> make_lrn(const KernelRequest& request);
std::unique_ptr<Kernel> make_lp_normalization(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
