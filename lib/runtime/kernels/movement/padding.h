#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/host_device.h"

/// What Pad says, for all devices.
namespace autopar::runtime {

enum class PadMode { constant, edge, reflect, wrap };

struct Padding {
  PadMode mode = PadMode::constant;
  /// Elements put before each dimension; the output's shape tells those after. Negative ones crop.
  std::vector<std::int64_t> before;
};
Padding padding_of(const KernelRequest& request);

/// The element that stands at position `i` (counted from the first) of an endless extension of
/// `extent` elements; of a constant one -1 outside of them.
AUTOPAR_ELEMENTWISE std::int64_t extended_index(PadMode mode, std::int64_t i, std::int64_t extent) {
  const bool is_inside = i >= 0 && i < extent;
  if (is_inside) return i;
  if (mode == PadMode::constant) return -1;
  if (mode == PadMode::edge) return i < 0 ? 0 : extent - 1;
  if (extent == 1) return 0;
  const std::int64_t period = mode == PadMode::wrap ? extent : 2 * (extent - 1);
  const std::int64_t remainder = i % period;
  const std::int64_t folded = remainder < 0 ? remainder + period : remainder;
  return folded < extent ? folded : period - folded;
}

}  // namespace autopar::runtime
