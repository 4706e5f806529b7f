#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/cpu/panel_tile.h"

namespace autopar::runtime::cpu {

/// How a constant matrix [depth, columns] lies, which is kept in panels: [panel, depth,
/// panel_columns], with zeros in columns that are not there.
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

  /// The panels of the request's input, which is constant.
  std::shared_ptr<std::byte> kept(const KernelRequest& request, std::size_t input) const;
};

}  // namespace autopar::runtime::cpu
