#include "runtime/devices/cuda/cuda_device.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime::testing {

Device* device_under_test() {
  static cuda::CudaDevice device({});
  return &device;
}

}  // namespace autopar::runtime::testing
