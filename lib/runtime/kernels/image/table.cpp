#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> image_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "AveragePool", make_average_pool},
      {"", "MaxPool", make_max_pool},
      {passes::internal_domain, "ChannelsLastAveragePool",
       on_cpu ? cpu::make_channels_last_average_pool : nullptr, false,
       served(cpu::serves_channels_last_pool, nullptr), OperatorLine::Devices::cpu},
      {passes::internal_domain, "ChannelsLastMaxPool",
       on_cpu ? cpu::make_channels_last_max_pool : nullptr, false,
       served(cpu::serves_channels_last_pool, nullptr), OperatorLine::Devices::cpu},
      {"", "LpPool", make_lp_pool},
      {"", "GlobalLpPool", make_lp_pool},
      {"", "Resize", make_resize},
      {"", "GridSample", make_grid_sample},
      {"", "AffineGrid", make_affine_grid},
      {"", "DeformConv", make_deform_conv},
      {"", "RoiAlign", make_roi_align},
      {"", "MaxRoiPool", make_max_roi_pool},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
