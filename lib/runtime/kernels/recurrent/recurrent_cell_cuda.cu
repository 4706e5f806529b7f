#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/items_kernel.h"
#include "runtime/kernels/recurrent/recurrent_items.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_recurrent_cell(const KernelRequest& request) {
  return make_recurrent_cell_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cuda
