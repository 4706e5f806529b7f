#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/elementwise/chain_slots.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::cuda {

const KernelTable& kernels() {
  static const KernelTable table{"CUDA", cuda_entries(all_operators()), chain_slots,
                                 max_chain_slots};
  return table;
}

}  // namespace autopar::runtime::cuda
