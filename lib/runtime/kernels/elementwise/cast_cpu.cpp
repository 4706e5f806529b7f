#include "runtime/kernels/elementwise/cast_items.h"

#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/items_kernel.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_cast(const KernelRequest& request) {
  return is_low_precision_cast(request) ? make_low_precision_cast<ItemsDevice>(request)
                                        : make_elementwise(request);
}

}  // namespace autopar::runtime::cpu
