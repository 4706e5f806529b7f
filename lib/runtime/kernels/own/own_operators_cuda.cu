#include "runtime/kernels/own/own_operators_cuda.h"

#include "runtime/kernels/cuda/items_kernel.h"
#include "runtime/kernels/own/expert_items.h"
#include "runtime/kernels/own/tree_items.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_tree_sums(const KernelRequest& request) {
  return make_tree_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_expert_matmul_n_bits(const KernelRequest& request) {
  return make_expert_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cuda
