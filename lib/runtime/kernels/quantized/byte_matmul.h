#pragma once

#include <memory>

#include "runtime/kernels/product/product.h"

/// Products of bytes on a machine that has_byte_tiles(). Neither the product nor its depth is
/// empty.
namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_tiled_matmul_integer(const KernelRequest& request,
                                                  const Product& product);
std::unique_ptr<Kernel> make_tiled_quantized_matmul(const KernelRequest& request,
                                                    const Product& product);

}  // namespace autopar::runtime::cpu
