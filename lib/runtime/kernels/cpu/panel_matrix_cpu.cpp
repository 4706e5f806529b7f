#include "runtime/kernels/cpu/panel_matrix.h"

#include <fmt/format.h>

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

}  // namespace autopar::runtime::cpu
