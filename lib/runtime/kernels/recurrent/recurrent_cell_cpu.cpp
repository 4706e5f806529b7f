#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/items_kernel.h"
#include "runtime/kernels/recurrent/recurrent_items.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_recurrent_cell(const KernelRequest& request) {
  return make_recurrent_cell_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cpu
