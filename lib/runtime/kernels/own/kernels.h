#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::cpu {

/// ExpertMatMulNBits of checked inputs, the rows of each expert through MatMulNBits; null where
/// that has no such blocks.
MakeKernel make_rows_by_expert;

}  // namespace autopar::runtime::cpu

namespace autopar::runtime::AUTOPAR_DEVICE {

MakeKernel make_tree_sums, make_expert_matmul_n_bits;

}  // namespace autopar::runtime::AUTOPAR_DEVICE
