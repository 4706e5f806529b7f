#pragma once

#include <memory>
#include <span>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// Operand after operand is taken in by a product (FusedMatMul) or, where nothing is summed, by
/// Mul, after copies where the dimensions have another order than that.
std::unique_ptr<Kernel> make_einsum(const KernelRequest& request);

namespace AUTOPAR_DEVICE {
/// MatMul, Gemm and FusedMatMul.
std::unique_ptr<Kernel> make_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_gathered_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_determinant(const KernelRequest& request);
}  // namespace AUTOPAR_DEVICE

// The products that each device takes of those that passes make.

namespace cpu {
/// oneDNN wants rows that lie together, and element-wise chains make activations as fast.
bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs);
/// In float32.
bool serves_gathered_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                            std::span<const TensorView> outputs);
}  // namespace cpu

namespace cuda {
bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs);
bool serves_gathered_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                            std::span<const TensorView> outputs);
}  // namespace cuda

}  // namespace autopar::runtime
