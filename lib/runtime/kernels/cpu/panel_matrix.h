#pragma once

#include <array>

#include "runtime/kernel.h"
#include "runtime/kernels/cpu/panel_tile.h"

namespace autopar::runtime::cpu {

/// How a matrix [depth, columns] lies that is brought into panels: [panel, depth, panel_columns],
/// with zeros in columns that are not there.
struct PanelMatrix {
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;  ///< in floats
  std::int64_t column_stride = 0;

  std::int64_t panels() const { return (columns + panel_columns - 1) / panel_columns; }
  std::int64_t panel_floats() const { return depth * panel_columns; }
  std::int64_t bytes() const {
    return panels() * panel_floats() * static_cast<std::int64_t>(sizeof(float));
  }

  /// Writes the panels of `scale` times the matrix.
  void write(const float* matrix, float scale, float* panels) const;
  /// The panels of the request's input, which is constant.
  std::shared_ptr<std::byte> kept(const KernelRequest& request, std::size_t input) const;
};

/// Products of rows, which have the matrix's depth, with the columns of as many panels as are read
/// at once.
class PanelProduct {
 public:
  /// The most columns of one.
  static constexpr std::int64_t most_columns = most_panels * panel_columns;

  /// Begins with `panels.begin`. `bias` is one number for each column of the matrix, or null.
  PanelProduct(const PanelMatrix& matrix, const float* in_panels, Range panels, const float* bias);

  std::int64_t panels() const { return at_once_.count; }
  std::int64_t first_column() const { return first_column_; }
  std::int64_t columns() const { return at_once_.columns; }

  /// Writes the products of so many rows. Strides are in floats.
  void multiply(const float* rows, std::int64_t row_stride, std::int64_t count, float* out,
                std::int64_t out_stride) const;

 private:
  /// Rows that follow one another, and where their products go.
  struct Rows {
    const float* first;
    std::int64_t stride;
    float* out;
    std::int64_t out_stride;

    Rows from(std::int64_t row) const {
      return {first + row * stride, stride, out + row * out_stride, out_stride};
    }
  };

  /// Multiplies `tiles` tiles of so many rows each.
  void multiply_tiles(Rows rows, std::int64_t tiles, std::int64_t of_each) const;

  std::int64_t depth_;
  std::int64_t first_column_;
  PanelsAtOnce at_once_;
  const float* weights_;
  std::array<float, most_columns> bias_ = {};
};

}  // namespace autopar::runtime::cpu
