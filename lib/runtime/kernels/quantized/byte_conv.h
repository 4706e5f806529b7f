#pragma once

#include <memory>

#include "runtime/kernels/quantized/byte_images.h"

/// Convolutions of bytes on a machine that has_byte_tiles(). Weights are constants that stand
/// around zero; the result is not empty.
namespace autopar::runtime::cpu {

Serves can_tile_byte_conv;
/// Whether it is faster than one of floats: groups of few channels leave most of a panel empty.
bool pays_tiled_byte_conv(const graph::Node& node, std::span<const TensorView> inputs);

/// Where each group is a channel and makes one.
std::unique_ptr<Kernel> make_byte_depthwise(const KernelRequest& request, DirectConvolution of,
                                            const ByteConvInputs& inputs);

std::unique_ptr<Kernel> make_tiled_conv_integer(const KernelRequest& request);
std::unique_ptr<Kernel> make_tiled_quantized_conv(const KernelRequest& request);

}  // namespace autopar::runtime::cpu
