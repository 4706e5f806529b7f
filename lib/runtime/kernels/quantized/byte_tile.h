#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

/// Exact sums of products of bytes where the processor has AVX2 alone. Its products of bytes add
/// pairs up in 16 bits, which saturates unless one of the factors is small.
namespace autopar::runtime::cpu {

/// Whether bytes are multiplied so here: oneDNN does it better where processors add up in 32 bits,
/// and without AVX2 there is no way.
bool has_byte_tiles();

/// Sums of so many rows and columns fill the registers, with room for weights and a word.
inline constexpr std::int64_t byte_tile_rows = 6;
inline constexpr std::int64_t byte_panel_columns = 16;
/// [row, column]
template <typename T>
using ByteTileNumbers = std::array<T, byte_tile_rows * byte_panel_columns>;

/// What rows and weights are multiplied as, in words of 32 bits.
enum class ByteForm {
  quads,  ///< four bytes, unsigned by signed; no pair of weights adds up to more than 128
  pairs,  ///< two numbers of 16 bits, by signed bytes; weights may be any
};
constexpr std::int64_t numbers_in_word(ByteForm form) { return form == ByteForm::quads ? 4 : 2; }

/// Words that lie one behind the other in a row, and whose weights do so in a panel.
struct WordStretch {
  std::int64_t offset;  ///< bytes from the row's first
  std::int64_t words;
};

/// What a tile is computed from.
struct ByteTile {
  std::span<const std::byte* const> rows;  ///< 1 to byte_tile_rows of them
  std::span<const WordStretch> stretches;
  const std::byte* panel;  ///< [word, byte_panel_columns, number of the word]
  ByteForm form;
};

/// sums[row, byte_panel_columns], modulo 2^32. The machine must be one that has_byte_tiles().
void compute_byte_tile(const ByteTile& of, std::int32_t* sums);

/// Writes bytes as a form has them, with zeros up to a whole word, and returns their sum. Signed
/// ones are made unsigned, 128 more.
std::int32_t write_byte_row(const std::byte* from, std::int64_t count, bool is_signed,
                            ByteForm form, std::byte* to);

}  // namespace autopar::runtime::cpu
