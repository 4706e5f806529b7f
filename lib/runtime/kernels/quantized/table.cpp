#include "runtime/kernels/quantized/kernels.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> quantized_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "QuantizeLinear", make_quantize_linear},
      {"", "DequantizeLinear", make_dequantize_linear},
      {"", "MatMulInteger", make_matmul_integer},
      {"", "ConvInteger", make_conv_integer},
      {"", "QLinearMatMul", make_qlinear_matmul},
      {"", "QLinearConv", make_qlinear_conv},
      {passes::internal_domain, "Requantize", make_requantize},
      {passes::internal_domain, "QuantizedMatMul", make_quantized_matmul, false,
       served(cpu::serves_quantized_matmul, cuda::serves_quantized_matmul)},
      {passes::internal_domain, "QuantizedConv", make_quantized_conv, false,
       served(cpu::serves_quantized_conv, cuda::serves_quantized_conv)},
      {"com.microsoft", "MatMulNBits", make_matmul_n_bits},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
