#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_range(const KernelRequest& request);
std::unique_ptr<Kernel> make_eye_like(const KernelRequest& request);
std::unique_ptr<Kernel> make_trilu(const KernelRequest& request);
std::unique_ptr<Kernel> make_one_hot(const KernelRequest& request);
/// RandomUniform and RandomUniformLike.
std::unique_ptr<Kernel> make_random_uniform(const KernelRequest& request);
/// RandomNormal and RandomNormalLike.
std::unique_ptr<Kernel> make_random_normal(const KernelRequest& request);
std::unique_ptr<Kernel> make_bernoulli(const KernelRequest& request);
std::unique_ptr<Kernel> make_multinomial(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
