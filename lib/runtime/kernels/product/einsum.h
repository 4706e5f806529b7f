#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// Einsum, for all devices: operand after operand is taken in by a product (FusedMatMul) or, where
/// nothing is summed, by Mul, after copies where the dimensions have another order than that.
std::unique_ptr<Kernel> make_einsum(const KernelRequest& request);

}  // namespace autopar::runtime
