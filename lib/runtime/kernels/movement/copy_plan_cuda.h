#pragma once

#include "runtime/device.h"
#include "runtime/kernels/cuda/words.h"

/// How a strided copy is done: what is known without a GPU, when a kernel is made.
namespace autopar::runtime::cuda {

/// A matrix whose columns lie together in the output, and whose rows do in the input. Strides are
/// in words.
struct TransposedMatrix {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::int64_t in_row = 0;
  std::int64_t in_column = 0;
  std::int64_t out_row = 0;
  std::int64_t out_column = 0;
};

enum class CopyForm {
  words,     ///< a thread loads and stores words, as wide as both layouts allow
  repeated,  ///< a thread loads an element and stores a wide word full of it
  tiles,     ///< a block turns a square of a matrix over in shared memory
};

struct CopyJob {
  CopyForm form = CopyForm::words;
  int load_bytes = 1;
  int store_bytes = 1;
  std::int64_t in_offset = 0;  ///< bytes
  std::int64_t out_offset = 0;
  WordLayout layout;  ///< of tiles: of the matrices' first elements
  TransposedMatrix matrix;
};

inline constexpr int widest_word = 16;

/// What it takes to copy. `alignment` is the bytes by whose multiples each side's first element is
/// aligned, a power of two from element_bytes to widest_word; of an input that is repeated along
/// its innermost dimension the output's alone matters. No job has more than `most_elements`.
std::vector<CopyJob> plan_copy(const CopyLayout& layout, int alignment,
                               std::int64_t most_elements = FastDivisor::limit);

/// Whether the output's innermost elements are all the same one of the input.
bool repeats_elements(const CopyLayout& layout);

}  // namespace autopar::runtime::cuda
