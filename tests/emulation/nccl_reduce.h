#pragma once

#include <cstddef>
#include <span>

#include "nccl.h"

namespace autopar::fake_nccl {

/// Bytes of an element; 0 for types that are not emulated.
std::size_t bytes_of(ncclDataType_t type);

/// Reduces `count` elements of each input, in order, into `out`, which may be one of them. As in
/// NCCL every step is rounded to the type, and a mean of floating-point numbers is the sum of
/// inputs times 1/n.
void reduce(std::span<const std::byte* const> inputs, std::byte* out, std::size_t count,
            ncclDataType_t type, ncclRedOp_t op);

}  // namespace autopar::fake_nccl
