// MatMul, Gemm and FusedMatMul.

#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/product/kernels.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  const DataType type = request.outputs[0].type;
  const Product product = product_of(request);
  if (product.activation != Activation::none && !graph::is_floating_point(type))
    fail_type(request, type);
  if (product.is_empty()) return std::make_unique<NoWork>();
  auto on_device = make_device_product({device_of(request), request.node.name, type, product});
  if (!on_device) fail_type(request, type);
  const std::int64_t scratch_bytes = on_device->scratch_bytes();
  auto run = [has_c = product.c.has_value(), on_device = std::move(on_device)](const KernelIo& io) {
    const ProductData data = {.a = io.inputs[0].data,
                              .b = io.inputs[1].data,
                              .c = has_c ? io.inputs[2].data : nullptr,
                              .out = io.outputs[0].data};
    on_device->run(data, io.scratch, static_cast<cudaStream_t>(io.stream));
  };
  return make_kernel(std::move(run), scratch_bytes);
}

std::unique_ptr<DeviceProduct> make_device_product(const ProductRequest& request) {
  const bool is_plain = !graph::is_floating_point(request.type) || request.product.depth == 0;
  if (is_plain) return make_plain_product(request);
  if (auto rows = make_row_product(request)) return rows;
  if (auto padded = make_padded_product(request)) return padded;
  return make_cublas_product(request);
}

}  // namespace autopar::runtime::cuda
