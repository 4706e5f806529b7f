#pragma once

#include "runtime/device.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime::testing {

/// The kernels of the device under test.
inline const KernelTable& kernels_under_test() {
  return device_under_test() ? device_under_test()->kernels() : cpu_kernels();
}

}  // namespace autopar::runtime::testing
