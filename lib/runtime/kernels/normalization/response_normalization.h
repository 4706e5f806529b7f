#pragma once

#include <cstdint>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// What LRN says: channels [channel - before, channel + behind] are added up.
struct ResponseWindow {
  std::int64_t size = 1;
  std::int64_t before = 0;
  std::int64_t behind = 0;
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;

  explicit ResponseWindow(const KernelRequest& request);
};

}  // namespace autopar::runtime
