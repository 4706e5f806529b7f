#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> convolution_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "Conv", make_conv},
      {"", "ConvTranspose", make_conv_transpose},
      {"", "Col2Im", make_col2im},
      {"", "MaxUnpool", make_max_unpool},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
