#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime::cuda {

/// ONNX's Attention and the compiler's.
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);
/// One that takes every form and floating type: a block of threads a query.
std::unique_ptr<Kernel> make_plain_attention(const KernelRequest& request);

}  // namespace autopar::runtime::cuda
