#include "runtime/kernels/cpu/items_kernel.h"
#include "runtime/kernels/own/own_operators_cpu.h"
#include "runtime/kernels/own/tree_items.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_tree_sums(const KernelRequest& request) {
  return make_tree_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cpu
