#include "runtime/kernels/elementwise/cast_items.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/items_kernel.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_cast(const KernelRequest& request) {
  return is_low_precision_cast(request) ? make_low_precision_cast<ItemsDevice>(request)
                                        : make_elementwise(request);
}

}  // namespace autopar::runtime::cuda
