#include "runtime/kernels/reduction/reduction_items.h"

#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/items_kernel.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_reduce_log_sum_exp(const KernelRequest& request) {
  return make_log_sum_exp_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_cumprod(const KernelRequest& request) {
  return make_cumprod_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cpu
