#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// The sums by MatMulInteger or ConvInteger, then Requantize.
MakeKernel make_qlinear_matmul, make_qlinear_conv;

namespace cpu {
/// Whether the processor multiplies bytes exactly, and there are some; or nothing is to be made.
Serves serves_quantized_matmul, serves_quantized_conv;
}  // namespace cpu
namespace cuda {
Serves serves_quantized_matmul, serves_quantized_conv;
}  // namespace cuda

namespace AUTOPAR_DEVICE {

MakeKernel make_matmul_n_bits, make_quantize_linear, make_dequantize_linear;
MakeKernel make_matmul_integer, make_conv_integer;
/// MatMulInteger and ConvInteger by their definition.
MakeKernel make_matmul_integer_loops, make_conv_integer_loops;
MakeKernel make_quantized_matmul, make_quantized_conv;
/// The step from sums to a quantised result (integers_portable.cpp).
MakeKernel make_requantize;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
