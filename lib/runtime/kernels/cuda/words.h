#pragma once

#include <cuda_runtime.h>

#include <numeric>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cuda/fast_division.h"

/// Memory moved as words: elements of any type by their size, or several as one.
namespace autopar::runtime::cuda {

/// Bytes of the widest word that rows of so many bytes, which follow one another, are made of.
inline int word_bytes_of(std::int64_t row_bytes) {
  return static_cast<int>(std::gcd<std::int64_t>(row_bytes, 16));
}

/// Error where there are more than kernels count in 31 bits.
inline std::uint32_t checked_count(const KernelRequest& request, std::int64_t words) {
  if (words >= FastDivisor::limit)
    fail("node '{}': {} of {} words has no CUDA kernel; split it over more GPUs", request.node.name,
         qualified_op_type(request.node), words);
  return static_cast<std::uint32_t>(words);
}

/// Calls `visitor(Word{})` with the unsigned type of 1, 2, 4, 8 or 16 bytes.
template <typename Visitor>
void visit_word(int bytes, Visitor visitor) {
  if (!visit_size(bytes, Joined<UnsignedIntegers, Types<uint4>>{}, visitor))
    throw InternalError("internal error: words have 1, 2, 4, 8 or 16 bytes");
}

/// 8 bytes full of an element.
template <typename Element>
__device__ inline std::uint64_t repeated(Element element) {
  std::uint64_t pattern = element;
  if constexpr (sizeof(Element) <= 1) pattern |= pattern << 8;
  if constexpr (sizeof(Element) <= 2) pattern |= pattern << 16;
  if constexpr (sizeof(Element) <= 4) pattern |= pattern << 32;
  return pattern;
}

/// A word full of 8 bytes' pattern.
template <typename Word>
__device__ inline Word word_of(std::uint64_t pattern) {
  if constexpr (sizeof(Word) == 16) {
    const auto low = static_cast<std::uint32_t>(pattern);
    const auto high = static_cast<std::uint32_t>(pattern >> 32);
    return {low, high, low, high};
  } else {
    return static_cast<Word>(pattern);
  }
}

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
