#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "cost/device_model.h"

namespace autopar::search {

/// `--memory`: `fair` is 1.25/N of the weights a rank beside the device's capacity, `device` the
/// capacity alone, a size the limit of weights and activations together.
struct MemoryPolicy {
  enum class Kind { fair, device, bytes } kind = Kind::fair;
  std::int64_t bytes = 0;
  /// "fair", "device", "80GiB", "500MB", "1048576"; throws Error that shows the forms.
  static MemoryPolicy parse(const std::string& text);
  static MemoryPolicy unlimited() {
    return {Kind::bytes, std::numeric_limits<std::int64_t>::max()};
  }
};

/// Bytes of a device that weights and activations together may take.
std::int64_t limit_of(const MemoryPolicy& memory, const cost::DeviceModel& device);

/// What a weight adds to the limit of a rank's weights under `fair`: 1.25/N of its bytes, or what
/// each of `devices` needs at `least` however it is split.
std::int64_t fair_share(std::int64_t bytes, int devices, std::int64_t least);

}  // namespace autopar::search
