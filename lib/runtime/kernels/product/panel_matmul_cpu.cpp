// Products of rows by small constant matrices. The matrix is kept in panels of columns, and tiles
// of rows and columns stay in registers.

#include <algorithm>

#include "runtime/device.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/panel_matrix.h"
#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/product/kernels.h"
#include "runtime/kernels/product/onednn_product.h"
#include "runtime/kernels/product/row_by_blocks.h"

namespace autopar::runtime::cpu {
namespace {

/// The largest matrix whose products are made so. oneDNN's of larger ones are as fast, and with
/// AVX2 a little faster; but a model that has no larger ones does without oneDNN's code in memory.
constexpr std::int64_t most_matrix_bytes = 256 * 1024;
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

void multiply(const PanelMatrix& matrix, const Operands& operands, Range rows, Range panels) {
  const std::int64_t together =
      std::max<std::int64_t>(most_row_numbers / matrix.depth / tile_windows, 1) * tile_windows;
  for (std::int64_t first = rows.begin; first < rows.end; first += together) {
    const Range block{first, std::min(first + together, rows.end)};
    for (Range left = panels; left.count() > 0;) {
      const PanelProduct product(matrix, operands.panels, left, operands.bias);
      product.multiply(operands.a + block.begin * matrix.depth, matrix.depth, block.count(),
                       operands.out + block.begin * matrix.columns + product.first_column(),
                       matrix.columns);
      left.begin += product.panels();
    }
  }
}

class PanelMatMul final : public Kernel {
 public:
  PanelMatMul(const Product& product, int threads, std::shared_ptr<std::byte> panels)
      : matrix_(matrix_of(product)),
        rows_{0, product.rows},
        has_bias_(product.c),
        threads_(threads),
        parts_(std::clamp<std::int64_t>(product.rows * product.depth * product.columns / least_work,
                                        1, threads)),
        panels_(std::move(panels)) {}

  bool reads(std::size_t input) const override { return input != 1; }

  void run(const KernelIo& io) override {
    const Operands operands{
        io.inputs[0].as<const float>(), reinterpret_cast<const float*>(panels_.get()),
        has_bias_ ? io.inputs[2].as<const float>() : nullptr, io.outputs[0].as<float>()};
    if (rows_.count() == 1)
      return multiply_row({.row = operands.a,
                           .blocks = operands.panels,
                           .bias = operands.bias,
                           .out = operands.out,
                           .depth = matrix_.depth,
                           .padded_depth = matrix_.depth,
                           .columns = matrix_.columns},
                          panel_columns, threads_);
    const Range panels{0, matrix_.panels()};
    const bool splits_rows = rows_.count() >= parts_ * tile_windows;
    for_in_threads(threads_, parts_, [&](std::int64_t part) {
      multiply(matrix_, operands, splits_rows ? rows_.part(part, parts_) : rows_,
               splits_rows ? panels : panels.part(part, parts_));
    });
  }

 private:
  PanelMatrix matrix_;
  Range rows_;
  bool has_bias_;
  int threads_;
  std::int64_t parts_;
  std::shared_ptr<std::byte> panels_;
};

}  // namespace

std::unique_ptr<Kernel> make_panel_matmul(const KernelRequest& request, const Product& product) {
  const PanelMatrix matrix = matrix_of(product);
  const bool is_small = matrix.bytes() <= most_matrix_bytes &&
                        matrix.bytes() <= request.inputs[1].size_bytes() * 9 / 8;
  if (!is_small || simd_level() == SimdLevel::baseline) return nullptr;
  return std::make_unique<PanelMatMul>(product, request.device.threads(), matrix.kept(request, 1));
}

}  // namespace autopar::runtime::cpu
