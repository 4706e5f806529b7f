#pragma once

#include <memory>
#include <span>

#include "runtime/kernel.h"

namespace autopar::runtime::cpu {

/// Whether the kernel takes an Attention node that a pass would make: rows must lie together.
bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs);

/// ONNX's Attention and the compiler's.
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
