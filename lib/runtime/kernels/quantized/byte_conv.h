#pragma once

#include <memory>

#include "runtime/kernel.h"

/// Convolutions of bytes on a machine that has_byte_tiles(). Weights are constants that stand
/// around zero; the result is not empty.
namespace autopar::runtime::cpu {

Serves can_tile_byte_conv;
/// Whether it is faster than one of floats: groups of few channels leave most of a panel empty.
bool pays_tiled_byte_conv(const graph::Node& node, std::span<const TensorView> inputs);

std::unique_ptr<Kernel> make_tiled_conv_integer(const KernelRequest& request);
std::unique_ptr<Kernel> make_tiled_quantized_conv(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
