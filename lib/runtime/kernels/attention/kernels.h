#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

namespace AUTOPAR_DEVICE {
/// ONNX's and the compiler's.
MakeKernel make_attention, make_rotary_embedding;
}  // namespace AUTOPAR_DEVICE

// The nodes that each device takes of those that passes make.

namespace cpu {
/// Rows must lie together.
Serves serves_attention;
}  // namespace cpu

namespace cuda {
Serves serves_attention;

/// Whether the kernel for half types, which keeps scores in registers, takes an Attention node:
/// rows of whole 16 bytes, up to 256 deep.
Serves serves_tiled_attention;
/// Queries that a block of it has.
inline constexpr int attention_tile_queries = 64;
}  // namespace cuda

/// Whether cosines and sines of these shapes and types have a kernel.
Serves serves_rotary_embedding;

}  // namespace autopar::runtime
