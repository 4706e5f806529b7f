#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// Operand after operand is taken in by a product (FusedMatMul) or, where nothing is summed, by
/// Mul, after copies where the dimensions have another order than that.
MakeKernel make_einsum;

namespace AUTOPAR_DEVICE {
/// MatMul, Gemm and FusedMatMul.
MakeKernel make_matmul;
MakeKernel make_gathered_matmul, make_determinant;
}  // namespace AUTOPAR_DEVICE

// The products that each device takes of those that passes make.

namespace cpu {
/// oneDNN wants rows that lie together, and element-wise chains make activations as fast.
Serves serves_fused_matmul;
/// In float32.
Serves serves_gathered_matmul;
}  // namespace cpu

namespace cuda {
Serves serves_fused_matmul, serves_gathered_matmul;
}  // namespace cuda

}  // namespace autopar::runtime
