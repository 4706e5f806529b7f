#include "runtime/kernels/quantized/integer_items.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/items_kernel.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_matmul_integer(const KernelRequest& request) {
  return make_byte_items<ItemsDevice, MatMulIntegerItems>(request);
}
std::unique_ptr<Kernel> make_conv_integer(const KernelRequest& request) {
  return make_byte_items<ItemsDevice, ConvIntegerItems>(request);
}
std::unique_ptr<Kernel> make_requantize(const KernelRequest& request) {
  return make_requantize_items<ItemsDevice>(request);
}

}  // namespace autopar::runtime::cuda
