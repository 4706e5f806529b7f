#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_reduce_sum(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_mean(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_prod(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_max(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_min(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_sum_square(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_log_sum(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_log_sum_exp(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_l1(const KernelRequest& request);
std::unique_ptr<Kernel> make_reduce_l2(const KernelRequest& request);
std::unique_ptr<Kernel> make_global_average_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_global_max_pool(const KernelRequest& request);
std::unique_ptr<Kernel> make_cumsum(const KernelRequest& request);
std::unique_ptr<Kernel> make_cumprod(const KernelRequest& request);
std::unique_ptr<Kernel> make_arg_max(const KernelRequest& request);
std::unique_ptr<Kernel> make_arg_min(const KernelRequest& request);
std::unique_ptr<Kernel> make_hardmax(const KernelRequest& request);
std::unique_ptr<Kernel> make_top_k(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
