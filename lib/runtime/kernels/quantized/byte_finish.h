#pragma once

#include <array>
#include <cstdint>

#include "runtime/kernels/quantized/byte_tile.h"

/// What becomes of a tile's sums of ab: zero points are made good by
///   sum of (a - za)(b - zb) = sum of ab - za sum of b - zb (sum of a - k za),
/// and the results scaled. Numbers that are added modulo 2^32 are unsigned.
namespace autopar::runtime::cpu {

/// What the sums of a row are made good by.
struct ByteRowTerms {
  std::uint32_t zero = 0;
  std::uint32_t sum = 0;  ///< of the row less its zero points
};
using ByteTileTerms = std::array<ByteRowTerms, byte_tile_rows>;

/// What the sums of a panel's columns are made good, scaled and moved by.
struct ByteColumnTerms {
  std::int64_t count = 0;  ///< columns that are there
  std::array<std::uint32_t, byte_panel_columns> zeros = {};
  std::array<std::uint32_t, byte_panel_columns> sums = {};
  std::array<float, byte_panel_columns> scales = {};
  std::array<float, byte_panel_columns> biases = {};
};

/// Results are [byte_tile_rows, byte_panel_columns] as sums are. Those in int32 have neither scale
/// nor bias.
void finish_byte_tile(const ByteTileTerms& rows, const ByteColumnTerms& columns,
                      const std::int32_t* sums, std::int32_t* results);
void finish_byte_tile(const ByteTileTerms& rows, const ByteColumnTerms& columns,
                      const std::int32_t* sums, float* results);

}  // namespace autopar::runtime::cpu
