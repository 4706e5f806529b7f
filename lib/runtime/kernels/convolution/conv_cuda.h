#pragma once

#include <cstdint>
#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime::cuda {

/// Conv and ConvTranspose of so many images at a time that their windows or columns, in scratch
/// memory, take no more bytes than that; one image at least.
std::unique_ptr<Kernel> make_conv_within(const KernelRequest& request,
                                         std::int64_t most_window_bytes);
std::unique_ptr<Kernel> make_conv_transpose_within(const KernelRequest& request,
                                                   std::int64_t most_column_bytes);

}  // namespace autopar::runtime::cuda
