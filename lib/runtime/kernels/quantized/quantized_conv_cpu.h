#pragma once

#include <memory>
#include <span>

#include "runtime/kernel.h"

namespace autopar::runtime::cpu {

/// Whether the processor adds bytes up exactly, and there is something to add; or nothing to make.
bool serves_quantized_conv(std::span<const TensorView> inputs, std::span<const TensorView> outputs);

/// The compiler's QuantizedConv.
std::unique_ptr<Kernel> make_quantized_conv(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
