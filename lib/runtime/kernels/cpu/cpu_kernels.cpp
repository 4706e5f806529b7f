#include "runtime/kernels/cuda_operators.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime {

const KernelTable& cpu_kernels() {
  static const KernelTable table{"CPU", cpu::all_entries(OperatorLine::Devices::cpu),
                                 cpu::chain_slots, cpu::max_chain_slots};
  return table;
}

const KernelTable& cuda_operators() {
  static const KernelTable table{"CUDA", cpu::all_entries(OperatorLine::Devices::cuda),
                                 cuda::chain_slots, cuda::max_chain_slots};
  return table;
}

}  // namespace autopar::runtime
