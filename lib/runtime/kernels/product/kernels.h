#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// Operand after operand is taken in by a product (FusedMatMul) or, where nothing is summed, by
/// Mul, after copies where the dimensions have another order than that.
std::unique_ptr<Kernel> make_einsum(const KernelRequest& request);

}  // namespace autopar::runtime

namespace autopar::runtime::AUTOPAR_DEVICE {

/// MatMul, Gemm and FusedMatMul.
std::unique_ptr<Kernel> make_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_gathered_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_determinant(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
