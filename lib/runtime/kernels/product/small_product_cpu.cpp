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

bool serves_small_matmul(const KernelRequest& request, const Product& of) {
  const bool are_floats = std::ranges::all_of(request.inputs, [](const TensorView& input) {
    return !input.present() || input.type == DataType::float32;
  });
  const bool has_rows = of.a.column_stride == 1 && of.out.column_stride == 1;
  const bool adds_bias = !of.c || (of.has_bias() && of.beta == 1);
  return are_floats && has_rows && adds_bias && !of.is_empty() && is_small_matrix(of.depth, 1) &&
         of.depth * of.columns <= most_matrix_floats;
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
    const float* const bias = of.bias == nullptr ? nullptr : of.bias + first;
    float* const out = of.out + first;
    for (Range left{0, b.panels()}; left.count() > 0;) {
      const PanelProduct product(b, panels.data(), left, bias);
      product.multiply(of.a, of.a_stride, of.rows, out + product.first_column(), of.out_stride);
      left.begin += product.panels();
    }
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
