#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> convolution_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "Conv", make_conv},
      {passes::internal_domain, "ChannelsLastConv", on_cpu ? cpu::make_channels_last_conv : nullptr,
       false, served(cpu::serves_channels_last_conv, nullptr), OperatorLine::Devices::cpu},
      {passes::internal_domain, "ChannelsLastConvMaximum",
       on_cpu ? cpu::make_conv_maximum : nullptr, false, served(cpu::serves_conv_maximum, nullptr),
       OperatorLine::Devices::cpu},
      {"", "ConvTranspose", make_conv_transpose},
      {"", "Col2Im", make_col2im},
      {"", "MaxUnpool", make_max_unpool},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
