#pragma once

#include <cstdint>
#include <string>

namespace autopar::search {

/// `--memory`: `fair` is 1.25/N of the weights a rank beside the device's capacity, `device` the
/// capacity alone, a size the limit of weights and activations together.
struct MemoryPolicy {
  enum class Kind { fair, device, bytes } kind = Kind::fair;
  std::int64_t bytes = 0;
  /// "fair", "device", "80GiB", "500MB", "1048576"; throws Error that shows the forms.
  static MemoryPolicy parse(const std::string& text);
};

}  // namespace autopar::search
