#pragma once

#include <memory>
#include <span>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

namespace AUTOPAR_DEVICE {
/// ONNX's Attention and the compiler's.
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);
/// ONNX's RotaryEmbedding and the compiler's.
std::unique_ptr<Kernel> make_rotary_embedding(const KernelRequest& request);
}  // namespace AUTOPAR_DEVICE

// The nodes that each device takes of those that passes make.

namespace cpu {
/// Rows must lie together.
bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs);
}  // namespace cpu

namespace cuda {
bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs);

/// Whether the kernel for half types, which keeps scores in registers, takes an Attention node:
/// rows of whole 16 bytes, up to 256 deep.
bool serves_tiled_attention(const graph::Node& node, std::span<const TensorView> inputs,
                            std::span<const TensorView> outputs);
/// Queries that a block of it has.
inline constexpr int attention_tile_queries = 64;
}  // namespace cuda

/// Whether cosines and sines of these shapes and types have a kernel.
bool serves_rotary_embedding(const graph::Node& node, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs);

}  // namespace autopar::runtime
