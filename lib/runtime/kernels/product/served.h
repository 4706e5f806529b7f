#pragma once

#include <span>

#include "runtime/kernel.h"

/// The products that each device takes of those that passes make.
namespace autopar::runtime {

namespace cpu {
/// oneDNN wants rows that lie together, and element-wise chains make activations as fast.
bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs);
/// In float32.
bool serves_gathered_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                            std::span<const TensorView> outputs);
}  // namespace cpu

namespace cuda {
bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs);
bool serves_gathered_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                            std::span<const TensorView> outputs);
}  // namespace cuda

}  // namespace autopar::runtime
