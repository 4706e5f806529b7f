#pragma once

#include <span>

#include "runtime/kernel.h"

/// The products of 8-bit numbers that each device takes of those that passes make.
namespace autopar::runtime {

namespace cpu {
/// Whether the processor adds bytes up exactly, and there is something to add; or nothing to make.
bool serves_quantized_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs);
bool serves_quantized_conv(const graph::Node& node, std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs);
}  // namespace cpu

namespace cuda {
bool serves_quantized_matmul(const graph::Node& node, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs);
bool serves_quantized_conv(const graph::Node& node, std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs);
}  // namespace cuda

}  // namespace autopar::runtime
