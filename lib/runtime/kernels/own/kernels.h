#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::cpu {

/// ExpertMatMulNBits of checked inputs, the rows of each expert through MatMulNBits; null where
/// that has no such blocks.
std::unique_ptr<Kernel> make_rows_by_expert(const KernelRequest& request);

}  // namespace autopar::runtime::cpu

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_tree_sums(const KernelRequest& request);
std::unique_ptr<Kernel> make_expert_matmul_n_bits(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
