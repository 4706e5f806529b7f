#include "runtime/kernels/tables.h"

namespace autopar::runtime {

namespace cpu {
/// A loop that only the run ends: its body is an Executable of its own.
std::unique_ptr<Kernel> make_loop(const KernelRequest& request);
}  // namespace cpu

namespace AUTOPAR_DEVICE {

std::span<const OperatorLine> control_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "Loop", on_cpu ? cpu::make_loop : nullptr, false, {}, OperatorLine::Devices::cpu},
  };
  return lines;
}

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
