#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// ONNX's Attention and the compiler's.
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);
/// ONNX's RotaryEmbedding and the compiler's.
std::unique_ptr<Kernel> make_rotary_embedding(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
