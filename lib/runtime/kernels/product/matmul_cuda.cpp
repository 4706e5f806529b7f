// MatMul, Gemm and FusedMatMul.

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/product/kernels.h"

namespace autopar::runtime::cuda {
namespace {

class MatMul final : public Kernel {
 public:
  /// Null: the result is empty.
  MatMul(std::unique_ptr<DeviceProduct> product, bool has_c)
      : product_(std::move(product)), has_c_(has_c) {}

  std::int64_t scratch_bytes() const override { return product_ ? product_->scratch_bytes() : 0; }

  void run(const KernelIo& io) override {
    if (!product_) return;
    const ProductData data = {.a = io.inputs[0].data,
                              .b = io.inputs[1].data,
                              .c = has_c_ ? io.inputs[2].data : nullptr,
                              .out = io.outputs[0].data};
    product_->run(data, io.scratch, static_cast<cudaStream_t>(io.stream));
  }

 private:
  std::unique_ptr<DeviceProduct> product_;
  bool has_c_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  const DataType type = request.outputs[0].type;
  const Product product = product_of(request);
  if (product.activation != Activation::none && !graph::is_floating_point(type))
    fail_type(request, type);
  if (product.is_empty()) return std::make_unique<MatMul>(nullptr, false);
  auto on_device = make_device_product({device_of(request), request.node.name, type, product});
  if (!on_device) fail_type(request, type);
  return std::make_unique<MatMul>(std::move(on_device), product.c.has_value());
}

std::unique_ptr<DeviceProduct> make_device_product(const ProductRequest& request) {
  const bool is_plain = !graph::is_floating_point(request.type) || request.product.depth == 0;
  if (is_plain) return make_plain_product(request);
  if (auto rows = make_row_product(request)) return rows;
  return make_cublas_product(request);
}

}  // namespace autopar::runtime::cuda
