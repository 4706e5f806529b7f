#pragma once

#include <memory>

#include "runtime/kernel.h"

/// Quantised products, for all devices: the sums by MatMulInteger or ConvInteger, then Requantize
/// (integer_items.h).
namespace autopar::runtime {

std::unique_ptr<Kernel> make_qlinear_matmul(const KernelRequest& request);
std::unique_ptr<Kernel> make_qlinear_conv(const KernelRequest& request);

}  // namespace autopar::runtime
