#include "runtime/kernels/quantized/integer_items.h"

#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/items_kernel.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_requantize(const KernelRequest& request) {
  return make_requantize_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cpu
