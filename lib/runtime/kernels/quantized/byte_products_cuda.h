#pragma once

#include <memory>

#include "runtime/kernel.h"

/// Large products of bytes by cuBLASLt, of operators whose results are sums in int32, or floats
/// that are such sums scaled. Each is null for products that it does not serve.
namespace autopar::runtime::cuda {

/// MatMulInteger, QuantizedMatMul.
std::unique_ptr<Kernel> make_byte_product(const KernelRequest& request);
/// ConvInteger, QuantizedConv: what windows see is packed, and multiplied by the weights.
std::unique_ptr<Kernel> make_byte_convolution(const KernelRequest& request);

}  // namespace autopar::runtime::cuda
