#include "runtime/kernels/reduction/reduction_items.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/items_kernel.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_reduce_log_sum_exp(const KernelRequest& request) {
  return make_log_sum_exp_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_cumprod(const KernelRequest& request) {
  return make_cumprod_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cuda
