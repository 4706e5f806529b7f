#include "runtime/kernels/reduction/selection_items.h"

#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/items_kernel.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_arg_max(const KernelRequest& request) {
  return make_arg_items<ItemsDevice, true>(request);
}
std::unique_ptr<Kernel> make_arg_min(const KernelRequest& request) {
  return make_arg_items<ItemsDevice, false>(request);
}
std::unique_ptr<Kernel> make_hardmax(const KernelRequest& request) {
  return make_hardmax_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_top_k(const KernelRequest& request) {
  return make_top_k_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cpu
