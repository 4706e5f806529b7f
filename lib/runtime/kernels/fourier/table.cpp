#include "runtime/kernels/fourier/kernels.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> fourier_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "DFT", make_dft},
      {"", "STFT", make_stft},
      {"", "MelWeightMatrix", make_mel_weight_matrix},
      {passes::internal_domain, "FourierRows", make_fourier_rows},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
