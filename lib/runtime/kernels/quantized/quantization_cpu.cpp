#include "runtime/kernels/quantized/quantization_items.h"

#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/items_kernel.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_quantize_linear(const KernelRequest& request) {
  return make_quantize_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_dequantize_linear(const KernelRequest& request) {
  return make_dequantize_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cpu
