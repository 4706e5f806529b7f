#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/fast_division.h"

namespace autopar::runtime::cuda {

/// A shape of words and where each lies in two layouts, innermost dimension first. Strides are in
/// words.
struct WordLayout {
  static constexpr int max_dimensions = 8;

  std::uint32_t words = 1;
  int dimensions = 0;
  FastDivisor extents[max_dimensions];
  std::int64_t in[max_dimensions] = {};
  std::int64_t out[max_dimensions] = {};

  /// Adds an outer dimension.
  void add(std::int64_t extent, std::int64_t in_stride, std::int64_t out_stride) {
    words *= static_cast<std::uint32_t>(extent);
    extents[dimensions] = FastDivisor(extent);
    in[dimensions] = in_stride;
    out[dimensions] = out_stride;
    ++dimensions;
  }
};

struct WordOffsets {
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// Where the word with this index lies.
__device__ inline WordOffsets offsets_of(const WordLayout& layout, std::uint32_t word) {
  WordOffsets offsets;
  for (int d = 0; d < layout.dimensions; ++d) {
    const std::int64_t index = layout.extents[d].divide(word);
    offsets.in += index * layout.in[d];
    offsets.out += index * layout.out[d];
  }
  return offsets;
}

}  // namespace autopar::runtime::cuda
