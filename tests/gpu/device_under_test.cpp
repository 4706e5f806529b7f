#include "runtime/devices/cuda_device.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime::testing {

Device* device_under_test() {
  static Device* const device = make_cuda_device({}).release();  // CUDA ends before objects do
  return device;
}

}  // namespace autopar::runtime::testing
