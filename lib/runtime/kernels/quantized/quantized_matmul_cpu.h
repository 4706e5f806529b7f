#pragma once

#include <memory>
#include <span>

#include "runtime/kernel.h"

namespace autopar::runtime::cpu {

/// Whether the processor adds bytes up exactly, and there is something to add; or nothing to make.
bool serves_quantized_matmul(std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs);

/// The compiler's QuantizedMatMul.
std::unique_ptr<Kernel> make_quantized_matmul(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
