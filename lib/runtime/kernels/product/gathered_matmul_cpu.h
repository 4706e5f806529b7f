#pragma once

#include <memory>
#include <span>

#include "runtime/kernel.h"

namespace autopar::runtime::cpu {

/// Whether the kernel takes a GatheredMatMul: in float32, its table a constant.
bool serves_gathered_matmul(std::span<const TensorView> inputs);

/// The compiler's GatheredMatMul.
std::unique_ptr<Kernel> make_gathered_matmul(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
