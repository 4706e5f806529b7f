#pragma once

#include <memory>
#include <span>

#include "runtime/kernel.h"

namespace autopar::runtime::cuda {

/// Whether the kernel takes an Attention node of these shapes: half types, rows of whole 16 bytes,
/// up to 256 deep.
bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs);

/// ONNX's Attention and the compiler's.
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);
/// One that takes every form and floating type: a block of threads a query.
std::unique_ptr<Kernel> make_plain_attention(const KernelRequest& request);

}  // namespace autopar::runtime::cuda
