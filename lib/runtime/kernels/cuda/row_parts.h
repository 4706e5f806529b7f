#pragma once

#include <algorithm>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cuda/launch.h"

/// How rows along an axis are given to blocks.
namespace autopar::runtime::cuda {

/// Whether a block a row is worth it: shorter rows have a thread each, and so have those whose
/// elements lie apart, since neighbouring threads then read neighbouring elements.
inline bool suits_blocks(const AxisExtents& rows) { return rows.extent >= 128 && rows.inner < 32; }

/// A row's parts, a block each: several where rows are long and too few for a GPU's processors.
struct RowParts {
  static constexpr std::int64_t least_elements = 2048;
  static constexpr std::int64_t most_parts = 64;
  static constexpr std::int64_t enough_blocks = 256;

  unsigned count = 1;
  std::int64_t elements = 0;  ///< of each part but the last

  RowParts(std::int64_t rows, std::int64_t extent) {
    const std::int64_t wanted = enough_blocks / std::max<std::int64_t>(rows, 1);
    const std::int64_t most =
        std::max<std::int64_t>(1, std::min({extent / least_elements, wanted, most_parts}));
    elements = (extent + most - 1) / most;
    count = elements == 0 ? 1 : static_cast<unsigned>((extent + elements - 1) / elements);
  }

  __device__ std::int64_t begin(std::int64_t part) const { return part * elements; }
  __device__ std::int64_t end(std::int64_t part, std::int64_t extent) const {
    return begin(part) + elements < extent ? begin(part) + elements : extent;
  }
};

}  // namespace autopar::runtime::cuda
