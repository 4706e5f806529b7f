#include "runtime/kernels/quantized/quantization_items.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/items_kernel.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_quantize_linear(const KernelRequest& request) {
  return make_quantize_items<ItemsDevice>(request);
}
std::unique_ptr<Kernel> make_dequantize_linear(const KernelRequest& request) {
  return make_dequantize_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cuda
