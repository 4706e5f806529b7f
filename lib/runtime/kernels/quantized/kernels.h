#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// The sums by MatMulInteger or ConvInteger, then Requantize.
std::unique_ptr<Kernel> make_qlinear_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_qlinear_conv(const KernelRequest& request);

}  // namespace autopar::runtime

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_matmul_n_bits(const KernelRequest& request);
std::unique_ptr<Kernel> make_quantize_linear(const KernelRequest& request);
std::unique_ptr<Kernel> make_dequantize_linear(const KernelRequest& request);
std::unique_ptr<Kernel> make_matmul_integer(const KernelRequest& request);
std::unique_ptr<Kernel> make_conv_integer(const KernelRequest& request);
/// MatMulInteger and ConvInteger by their definition.
std::unique_ptr<Kernel> make_matmul_integer_loops(const KernelRequest& request);
std::unique_ptr<Kernel> make_conv_integer_loops(const KernelRequest& request);
std::unique_ptr<Kernel> make_quantized_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_quantized_conv(const KernelRequest& request);
/// The step from sums to a quantised result (integers_portable.cpp).
std::unique_ptr<Kernel> make_requantize(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
