#include "runtime/kernels/cuda_operators.h"
#include "runtime/kernels/elementwise/chain_slots.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime {
namespace {

/// Without the factories, which only CUDA's plugin has.
std::vector<KernelEntry> names_on_cuda() {
  std::vector<KernelEntry> entries = cuda_entries(cpu::all_operators());
  for (KernelEntry& entry : entries) entry.make = nullptr;
  return entries;
}

}  // namespace

const KernelTable& cpu_kernels() {
  static const KernelTable table{"CPU", cpu_entries(cpu::all_operators()), cpu::chain_slots,
                                 cpu::max_chain_slots};
  return table;
}

const KernelTable& cuda_operators() {
  static const KernelTable table{"CUDA", names_on_cuda(), cuda::chain_slots, cuda::max_chain_slots};
  return table;
}

}  // namespace autopar::runtime
