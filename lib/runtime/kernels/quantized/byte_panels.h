#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/kernels/quantized/byte_tile.h"

/// Weights of products of bytes, in panels of columns.
namespace autopar::runtime::cpu {

/// A matrix of bytes. Strides are in elements.
struct ByteMatrix {
  const std::byte* data;
  bool is_signed;  ///< unsigned ones are made signed, 128 less
  std::int64_t depth_stride;
  std::int64_t column_stride;
};

/// The part of a weight that its panel leaves out, since the weight's pair would saturate with it.
struct ByteExcess {
  std::int32_t stretch;
  std::int32_t place;  ///< in its stretch
  std::int8_t column;  ///< of the panel
  std::int8_t weight;
};

/// How a matrix lies in memory as panels. What is along its depth comes in stretches of equal
/// length, each of which begins with a word of its own.
struct BytePanelLayout {
  std::int64_t stretches;
  std::int64_t length;  ///< numbers
  std::int64_t columns;

  std::int64_t depth() const { return stretches * length; }
  std::int64_t panels() const { return (columns + byte_panel_columns - 1) / byte_panel_columns; }
  std::int64_t words(ByteForm form) const {
    return (length + numbers_in_word(form) - 1) / numbers_in_word(form);
  }
  std::int64_t bytes() const;
};

/// Panels in memory that write_byte_panels() has filled.
class BytePanels {
 public:
  BytePanels(const BytePanelLayout& layout, const std::byte* memory)
      : layout_(layout), memory_(memory) {}

  ByteForm form() const;
  /// The weights' sums, 0 beyond the last column.
  std::span<const std::int32_t> column_sums(std::int64_t panel) const;
  const std::byte* weights(std::int64_t panel) const;
  std::span<const ByteExcess> excess(std::int64_t panel) const;

 private:
  BytePanelLayout layout_;
  const std::byte* memory_;
};

/// Fills `memory`, of layout.bytes(), which begins at a multiple of 64. Returns false where quads
/// would leave so much out that pairs are faster.
bool write_byte_panels(const BytePanelLayout& layout, const ByteMatrix& from, ByteForm form,
                       std::byte* memory);

/// Adds the products of what a panel of quads leaves out to a tile's sums.
void add_byte_excess(const ByteTile& of, std::span<const ByteExcess> excess, std::int32_t* sums);

}  // namespace autopar::runtime::cpu
