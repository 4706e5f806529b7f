// Products of small matrices that are not constant: columns of b are brought into panels on the
// stack, and tiles of rows and columns stay in registers.

#include "runtime/kernels/product/small_product.h"

#include <algorithm>
#include <array>

#include "runtime/device.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/panel_matrix.h"
#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/cpu/transposition.h"

namespace autopar::runtime::cpu {
namespace {

/// Floats of the panels on the stack: half of a core's first-level cache.
constexpr std::int64_t most_panel_floats = 4096;
/// Floats of the largest matrix b of a MatMul: as many as a constant one has (make_panel_matmul).
constexpr std::int64_t most_matrix_floats = 64 * 1024;
/// Products of numbers that are worth waking a thread for.
constexpr std::int64_t least_work = 32 * 1024;
/// Rows for which b is brought into panels once.
constexpr std::int64_t most_rows = 256;
/// So many rows of a matrix that lies column by column are transposed on the stack at a time.
constexpr std::int64_t transposed_rows = 32;
constexpr std::int64_t most_depth = most_panel_floats / panel_columns;
/// Floats of the largest matrix b of a MatMul by which such a matrix is multiplied: of a larger one
/// some columns are in panels at a time, for each of which all rows would be transposed.
constexpr std::int64_t most_floats_by_columns = 8 * 1024;

/// What is multiplied by a matrix in panels, and where the product goes.
struct RowsTimesPanels {
  const float* a;
  std::int64_t a_stride;
  std::int64_t rows;
  const float* bias;
  float* out;
  std::int64_t out_stride;
};

void multiply_panels(const PanelMatrix& b, const float* panels, const RowsTimesPanels& of) {
  for (Range left{0, b.panels()}; left.count() > 0;) {
    const PanelProduct product(b, panels, left, of.bias);
    product.multiply(of.a, of.a_stride, of.rows, of.out + product.first_column(), of.out_stride);
    left.begin += product.panels();
  }
}

/// The same of an `a` that lies column by column.
void multiply_columns_by_panels(const PanelMatrix& b, const float* panels, RowsTimesPanels of,
                                std::int64_t a_column_stride) {
  alignas(64) std::array<float, transposed_rows * most_depth> rows;
  const RowsTimesPanels all = of;
  of.a_stride = b.depth;
  for (std::int64_t row = 0; row < all.rows; row += transposed_rows) {
    of.a = rows.data();
    of.rows = std::min(transposed_rows, all.rows - row);
    of.out = all.out + row * all.out_stride;
    transpose<std::uint32_t>({.in = reinterpret_cast<const std::uint32_t*>(all.a + row),
                              .out = reinterpret_cast<std::uint32_t*>(rows.data()),
                              .rows = of.rows,
                              .columns = b.depth,
                              .in_row = a_column_stride,
                              .out_row = b.depth});
    multiply_panels(b, panels, of);
  }
}

bool lies_in_columns(const MatrixLayout& a) { return a.column_stride != 1 && a.row_stride == 1; }

bool serves_small_matmul(const KernelRequest& request, const Product& of) {
  const bool are_floats = std::ranges::all_of(request.inputs, [](const TensorView& input) {
    return !input.present() || input.type == DataType::float32;
  });
  const std::int64_t most_floats =
      lies_in_columns(of.a) ? most_floats_by_columns : most_matrix_floats;
  const bool has_rows =
      (of.a.column_stride == 1 || lies_in_columns(of.a)) && of.out.column_stride == 1;
  const bool adds_bias = !of.c || (of.has_bias() && of.beta == 1);
  return are_floats && has_rows && adds_bias && !of.is_empty() && is_small_matrix(of.depth, 1) &&
         of.depth * of.columns <= most_floats;
}

}  // namespace

bool is_small_matrix(std::int64_t depth, std::int64_t columns) {
  const PanelMatrix b{.depth = depth, .columns = columns};
  return simd_level() != SimdLevel::baseline && b.panels() * b.panel_floats() <= most_panel_floats;
}

void multiply_small(const SmallProduct& of) {
  const std::int64_t panel_floats = std::max<std::int64_t>(of.depth * panel_columns, 1);
  const std::int64_t at_once = most_panel_floats / panel_floats * panel_columns;
  require(at_once > 0, "a small product's panel fits the stack");
  alignas(64) std::array<float, most_panel_floats> panels;
  for (std::int64_t first = 0; first < of.columns; first += at_once) {
    const PanelMatrix b{.depth = of.depth,
                        .columns = std::min(at_once, of.columns - first),
                        .row_stride = of.b_row_stride,
                        .column_stride = of.b_column_stride};
    b.write(of.b + first * of.b_column_stride, of.scale, panels.data());
    const RowsTimesPanels columns{.a = of.a,
                                  .a_stride = of.a_stride,
                                  .rows = of.rows,
                                  .bias = of.bias == nullptr ? nullptr : of.bias + first,
                                  .out = of.out + first,
                                  .out_stride = of.out_stride};
    if (of.a_column_stride == 1)
      multiply_panels(b, panels.data(), columns);
    else
      multiply_columns_by_panels(b, panels.data(), columns, of.a_column_stride);
  }
}

std::unique_ptr<Kernel> make_small_matmul(const KernelRequest& request, const Product& product) {
  if (!serves_small_matmul(request, product)) return nullptr;
  return make_kernel([of = product, threads = request.device.threads()](const KernelIo& io) {
    const std::int64_t blocks = (of.rows + most_rows - 1) / most_rows;
    const std::int64_t parts = graph::num_elements(of.batches) * blocks;
    const bool is_large = parts * of.rows / blocks * of.columns * of.depth > least_work;
    for_in_threads(is_large ? threads : 1, parts, [&](std::int64_t part) {
      const auto at = [&](const MatrixLayout& layout) {
        return batch_offset(of.batches, layout.batch_strides, part / blocks);
      };
      const Range rows = Range{0, of.rows}.part(part % blocks, blocks);
      multiply_small(
          {.rows = rows.count(),
           .columns = of.columns,
           .depth = of.depth,
           .scale = of.alpha,
           .a = io.inputs[0].as<const float>() + at(of.a) + rows.begin * of.a.row_stride,
           .a_stride = of.a.row_stride,
           .a_column_stride = of.a.column_stride,
           .b = io.inputs[1].as<const float>() + at(of.b),
           .b_row_stride = of.b.row_stride,
           .b_column_stride = of.b.column_stride,
           .bias = of.c ? io.inputs[2].as<const float>() : nullptr,
           .out = io.outputs[0].as<float>() + at(of.out) + rows.begin * of.out.row_stride,
           .out_stride = of.out.row_stride});
    });
  });
}

}  // namespace autopar::runtime::cpu
