#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::cuda {

const KernelTable& kernels() {
  static const KernelTable table{"CUDA", all_entries(OperatorLine::Devices::cuda), chain_slots,
                                 max_chain_slots};
  return table;
}

}  // namespace autopar::runtime::cuda
