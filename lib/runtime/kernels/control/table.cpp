#include "runtime/kernels/control/kernels.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> control_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "Loop", on_cpu ? cpu::make_loop : nullptr, false, {}, OperatorLine::Devices::cpu},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
