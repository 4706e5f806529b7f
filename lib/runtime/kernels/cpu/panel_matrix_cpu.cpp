#include "runtime/kernels/cpu/panel_matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/device.h"

namespace autopar::runtime::cpu {

void PanelMatrix::write(const float* matrix, float scale, float* panels) const {
  for (std::int64_t first = 0; first < columns; first += panel_columns, panels += panel_floats()) {
    const std::int64_t count = std::min<std::int64_t>(panel_columns, columns - first);
    if (count < panel_columns) std::fill_n(panels, panel_floats(), 0.0F);
    const float* const from = matrix + first * column_stride;
    if (column_stride == 1) {
      for (std::int64_t k = 0; k < depth; ++k)
        for (std::int64_t i = 0; i < count; ++i)
          panels[k * panel_columns + i] = scale * from[k * row_stride + i];
    } else {
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t k = 0; k < depth; ++k)
          panels[k * panel_columns + i] = scale * from[k * row_stride + i * column_stride];
    }
  }
}

std::shared_ptr<std::byte> PanelMatrix::kept(const KernelRequest& request,
                                             std::size_t input) const {
  const std::string form = fmt::format("panels of {} columns, {} by {}, strides {}, {}",
                                       panel_columns, depth, columns, row_stride, column_stride);
  return request.kept(input, form, bytes(), [&] {
    auto made = request.device.allocate(bytes());
    write(request.inputs[input].as<const float>(), 1, reinterpret_cast<float*>(made.get()));
    return made;
  });
}

PanelProduct::PanelProduct(const PanelMatrix& matrix, const float* in_panels, Range panels,
                           const float* bias)
    : depth_(matrix.depth),
      first_column_(panels.begin * panel_columns),
      at_once_(panels.count(), matrix.columns - first_column_),
      weights_(in_panels + panels.begin * matrix.panel_floats()) {
  if (bias != nullptr) std::copy_n(bias + first_column_, columns(), bias_.data());
}

void PanelProduct::multiply(const float* rows, std::int64_t row_stride, std::int64_t count,
                            float* out, std::int64_t out_stride) const {
  if (count == 0) return;
  const Rows all{rows, row_stride, out, out_stride};
  const std::int64_t tiles = (count + tile_windows - 1) / tile_windows;
  const std::int64_t of_each = count / tiles;
  const std::int64_t with_one_more = count % tiles;
  multiply_tiles(all, with_one_more, of_each + 1);
  multiply_tiles(all.from(with_one_more * (of_each + 1)), tiles - with_one_more, of_each);
}

void PanelProduct::multiply_tiles(Rows rows, std::int64_t tiles, std::int64_t of_each) const {
  constexpr std::int64_t most_tiles = 16;  // of one call
  const std::array<Stretch, 1> whole = {{{.offset = 0, .depth = 0, .length = depth_}}};
  std::array<const float*, most_tiles * tile_windows> seen;
  const std::int64_t at_once = at_once_.are_at_edge() ? 1 : most_tiles;
  while (tiles > 0) {
    const std::int64_t now = std::min(tiles, at_once);
    for (std::int64_t i = 0; i < now * of_each; ++i)
      seen[static_cast<std::size_t>(i)] = rows.first + i * rows.stride;
    const TileOperands operands{
        .tiles = now,
        .windows = seen.data(),
        .channel = 0,
        .stretches = whole,
        .panel = weights_,
        .panel_floats = depth_ * panel_columns,
        .bias = bias_.data(),
        .addend = nullptr,
        .out = rows.out,
        .columns = rows.out_stride,
        .has_relu = false,
        .ahead = {.begin = reinterpret_cast<const char*>(weights_), .step = 0}};
    if (at_once_.are_at_edge())
      at_once_.compute_edge_tile(operands, of_each);
    else
      at_once_.function(of_each)(operands);
    rows = rows.from(now * of_each);
    tiles -= now;
  }
}

}  // namespace autopar::runtime::cpu
