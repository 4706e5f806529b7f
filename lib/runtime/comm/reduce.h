#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/data_type.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

/// Element-wise reduction of several buffers into `out`, in the buffers' order, so that the result
/// is the same wherever it is computed. Half types add in float32, and a mean divides at the end.
/// Throws Error for a type that cannot be reduced so.
void reduce_elements(std::span<const std::byte* const> sources, std::int64_t elements,
                     DataType type, ReduceOp op, std::byte* out);

}  // namespace autopar::runtime
