#pragma once

#include <cstdint>

/// Products of one row with a matrix that is kept in blocks of columns.
namespace autopar::runtime::cpu {

/// What a product of one row is computed from. A block has some columns, and a row of the matrix
/// behind the other; rows and columns that are not there fill the last ones up.
struct RowByBlocks {
  const float* row = nullptr;
  const float* blocks = nullptr;
  const float* bias = nullptr;  ///< null where nothing is added
  float* out = nullptr;
  std::int64_t depth = 0;
  std::int64_t padded_depth = 0;
  std::int64_t columns = 0;
};

/// Columns of oneDNN's blocks where the processor has AVX2 alone, and where it has AVX-512.
inline constexpr std::int64_t narrow_block = 8;
inline constexpr std::int64_t wide_block = 64;

/// By blocks of narrow_block, panel_columns or wide_block columns; the last need AVX-512 to be
/// fast.
void multiply_row(const RowByBlocks& of, std::int64_t block_columns, int threads);

}  // namespace autopar::runtime::cpu
