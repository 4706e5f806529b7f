// Products of rows by small constant matrices. The matrix is kept in panels of columns, and tiles
// of rows and columns stay in registers.

#include <algorithm>
#include <array>

#include "runtime/device.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/panel_matrix.h"
#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/product/kernels.h"
#include "runtime/kernels/product/onednn_product.h"
#include "runtime/kernels/product/row_by_blocks.h"

namespace autopar::runtime::cpu {
namespace {

/// Of larger matrices oneDNN's products are as fast, and with AVX2 faster.
std::int64_t most_matrix_bytes() {
  return simd_level() == SimdLevel::avx512 ? 256 * 1024 : 64 * 1024;
}
/// Products of numbers that are worth waking a thread for.
constexpr std::int64_t least_work = 32 * 1024;
/// Numbers of rows that are read again for the next panels, and stay in the second level of cache.
constexpr std::int64_t most_row_numbers = 128 * 1024;

PanelMatrix matrix_of(const Product& product) {
  return {product.depth, product.columns, product.b.row_stride, product.b.column_stride};
}

struct Operands {
  const float* a;
  const float* panels;
  const float* bias;  ///< null where nothing is added
  float* out;
};

/// Computes the columns of panels in some rows.
void multiply_panels(const Product& of, const Operands& operands, Range rows, std::int64_t panel,
                     const PanelsAtOnce& at_once) {
  const std::int64_t first_column = panel * panel_columns;
  std::array<float, most_panels* panel_columns> bias = {};
  if (operands.bias != nullptr)
    std::copy_n(operands.bias + first_column, at_once.columns, bias.data());
  const std::array<Stretch, 1> whole = {{{.offset = 0, .depth = 0, .length = of.depth}}};
  std::array<const float*, tile_windows> seen;
  const float* const weights = operands.panels + first_column * of.depth;
  TileOperands tile{.tiles = 1,
                    .windows = seen.data(),
                    .channel = 0,
                    .stretches = whole,
                    .panel = weights,
                    .panel_floats = of.depth * panel_columns,
                    .bias = bias.data(),
                    .addend = nullptr,
                    .out = nullptr,
                    .columns = of.columns,
                    .has_relu = false,
                    .ahead = {.begin = reinterpret_cast<const char*>(weights), .step = 0}};
  const std::int64_t tiles = (rows.count() + tile_windows - 1) / tile_windows;
  for (std::int64_t i = 0; i < tiles; ++i) {
    const Range in_tile = rows.part(i, tiles);
    for (std::int64_t row = in_tile.begin; row < in_tile.end; ++row)
      seen[static_cast<std::size_t>(row - in_tile.begin)] = operands.a + row * of.depth;
    tile.out = operands.out + in_tile.begin * of.columns + first_column;
    if (at_once.are_at_edge())
      at_once.compute_edge_tile(tile, in_tile.count());
    else
      at_once.function(in_tile.count())(tile);
  }
}

void multiply(const Product& of, const Operands& operands, Range rows, Range panels) {
  const std::int64_t together =
      std::max<std::int64_t>(most_row_numbers / of.depth / tile_windows, 1) * tile_windows;
  for (std::int64_t row = rows.begin; row < rows.end; row += together) {
    const Range block{row, std::min(row + together, rows.end)};
    for (std::int64_t panel = panels.begin; panel < panels.end;) {
      const PanelsAtOnce at_once(panels.end - panel, of.columns - panel * panel_columns);
      multiply_panels(of, operands, block, panel, at_once);
      panel += at_once.count;
    }
  }
}

class PanelMatMul final : public Kernel {
 public:
  PanelMatMul(const Product& product, int threads, std::shared_ptr<std::byte> panels)
      : of_(product),
        threads_(threads),
        parts_(
            std::clamp<std::int64_t>(of_.rows * of_.depth * of_.columns / least_work, 1, threads)),
        panels_(std::move(panels)) {}

  bool reads(std::size_t input) const override { return input != 1; }

  void run(const KernelIo& io) override {
    const Operands operands{
        io.inputs[0].as<const float>(), reinterpret_cast<const float*>(panels_.get()),
        of_.c ? io.inputs[2].as<const float>() : nullptr, io.outputs[0].as<float>()};
    if (of_.rows == 1)
      return multiply_row({.row = operands.a,
                           .blocks = operands.panels,
                           .bias = operands.bias,
                           .out = operands.out,
                           .depth = of_.depth,
                           .padded_depth = of_.depth,
                           .columns = of_.columns},
                          panel_columns, threads_);
    const Range rows{0, of_.rows};
    const Range panels{0, matrix_of(of_).panels()};
    const bool splits_rows = of_.rows >= parts_ * tile_windows;
    for_in_threads(threads_, parts_, [&](std::int64_t part) {
      multiply(of_, operands, splits_rows ? rows.part(part, parts_) : rows,
               splits_rows ? panels : panels.part(part, parts_));
    });
  }

 private:
  Product of_;
  int threads_;
  std::int64_t parts_;
  std::shared_ptr<std::byte> panels_;
};

}  // namespace

std::unique_ptr<Kernel> make_panel_matmul(const KernelRequest& request, const Product& product) {
  const PanelMatrix matrix = matrix_of(product);
  const bool is_small = matrix.bytes() <= most_matrix_bytes() &&
                        matrix.bytes() <= request.inputs[1].size_bytes() * 9 / 8;
  if (!is_small || simd_level() == SimdLevel::baseline) return nullptr;
  return std::make_unique<PanelMatMul>(product, request.device.threads(), matrix.kept(request, 1));
}

}  // namespace autopar::runtime::cpu
