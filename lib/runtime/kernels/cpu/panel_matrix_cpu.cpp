#include "runtime/kernels/cpu/panel_matrix.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/device.h"

namespace autopar::runtime::cpu {
namespace {

void write_panels(const PanelMatrix& of, const float* matrix, float* panels) {
  for (std::int64_t panel = 0; panel < of.panels(); ++panel)
    for (std::int64_t k = 0; k < of.depth; ++k)
      for (std::int64_t i = 0; i < panel_columns; ++i) {
        const std::int64_t column = panel * panel_columns + i;
        *panels++ = column < of.columns ? matrix[k * of.row_stride + column * of.column_stride] : 0;
      }
}

}  // namespace

std::shared_ptr<std::byte> PanelMatrix::kept(const KernelRequest& request,
                                             std::size_t input) const {
  const std::string form = fmt::format("panels of {} columns, {} by {}, strides {}, {}",
                                       panel_columns, depth, columns, row_stride, column_stride);
  return request.kept(input, form, bytes(), [&] {
    auto made = request.device.allocate(bytes());
    write_panels(*this, request.inputs[input].as<const float>(),
                 reinterpret_cast<float*>(made.get()));
    return made;
  });
}

PanelProduct::PanelProduct(const PanelMatrix& matrix, const float* kept, Range panels,
                           const float* bias)
    : depth_(matrix.depth),
      first_column_(panels.begin * panel_columns),
      at_once_(panels.count(), matrix.columns - first_column_),
      weights_(kept + panels.begin * matrix.panel_floats()) {
  if (bias != nullptr) std::copy_n(bias + first_column_, columns(), bias_.data());
}

void PanelProduct::multiply(const float* rows, std::int64_t count, float* out,
                            std::int64_t out_columns) const {
  const std::array<Stretch, 1> whole = {{{.offset = 0, .depth = 0, .length = depth_}}};
  std::array<const float*, tile_windows> seen;
  for (std::int64_t i = 0; i < count; ++i) seen[static_cast<std::size_t>(i)] = rows + i * depth_;
  const TileOperands tile{.tiles = 1,
                          .windows = seen.data(),
                          .channel = 0,
                          .stretches = whole,
                          .panel = weights_,
                          .panel_floats = depth_ * panel_columns,
                          .bias = bias_.data(),
                          .addend = nullptr,
                          .out = out,
                          .columns = out_columns,
                          .has_relu = false,
                          .ahead = {.begin = reinterpret_cast<const char*>(weights_), .step = 0}};
  if (at_once_.are_at_edge())
    at_once_.compute_edge_tile(tile, count);
  else
    at_once_.function(count)(tile);
}

}  // namespace autopar::runtime::cpu
