// ConvTranspose: a product of each group's weights with its channels makes columns, what each
// window holds, and these are added up to the images.

#include <algorithm>
#include <numeric>

#include "graph/arena.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/conv_cuda.h"
#include "runtime/kernels/convolution/folding.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/product/device_product_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// A type of its own: a kernel that two sources instantiate cannot be linked into the emulation.
template <typename T>
struct ProductElement {
  FoldedElement<T> folded;
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const { folded(i); }
};

class FoldedProduct final : public Kernel {
 public:
  FoldedProduct(const KernelRequest& request, const TransposedConvolution& convolution,
                std::int64_t most_column_bytes)
      : convolution_(convolution), element_bytes_(element_bytes_of(request, request.outputs[0])) {
    const std::int64_t an_image = image_columns() * element_bytes_;
    piece_ = std::clamp<std::int64_t>(most_column_bytes / std::max<std::int64_t>(an_image, 1), 1,
                                      convolution.images);
    column_bytes_ = graph::aligned(piece_ * an_image);
    whole_ = make_product(request, piece_);
    const std::int64_t rest = convolution.images % piece_;
    if (rest != 0) last_ = make_product(request, rest);
  }

  std::int64_t scratch_bytes() const override {
    return column_bytes_ +
           std::max(whole_->scratch_bytes(), last_ ? last_->scratch_bytes() : std::int64_t{0});
  }

  void run(const KernelIo& io) override {
    const Windows& windows = convolution_.windows;
    const std::int64_t out_elements = convolution_.out_channels * windows.in_places();
    for (std::int64_t image = 0; image < convolution_.images; image += piece_) {
      const std::int64_t images = std::min(piece_, convolution_.images - image);
      const ProductData data = {.a = io.inputs[1].data,
                                .b = io.inputs[0].data + image * in_bytes(),
                                .c = nullptr,
                                .out = io.scratch};
      DeviceProduct& product = images == piece_ ? *whole_ : *last_;
      product.run(data, io.scratch + column_bytes_, stream_of(io));
      visit_type(io.outputs[0].type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
        Loops(stream_of(io), {})
            .each(images * out_elements,
                  ProductElement<T>{{reinterpret_cast<const T*>(io.scratch),
                                     convolution_.has_bias ? io.inputs[2].as<const T>() : nullptr,
                                     io.outputs[0].as<T>() + image * out_elements, windows,
                                     convolution_.out_channels}});
      });
    }
  }

 private:
  /// The size of one image of the input.
  std::int64_t in_bytes() const {
    return convolution_.channels * convolution_.windows.out_places() * element_bytes_;
  }
  std::int64_t image_columns() const {
    return convolution_.out_channels * convolution_.windows.tap_places() *
           convolution_.windows.out_places();
  }

  std::unique_ptr<DeviceProduct> make_product(const KernelRequest& request, std::int64_t images) {
    const std::int64_t groups = convolution_.groups;
    Product product;
    product.batches = {images, groups};
    product.rows = convolution_.out_channels / groups * convolution_.windows.tap_places();
    product.depth = convolution_.channels / groups;
    product.columns = convolution_.windows.out_places();
    product.a = {{0, product.rows * product.depth}, 1, product.rows};
    product.b = {{groups * product.depth * product.columns, product.depth * product.columns},
                 product.columns,
                 1};
    product.out = {{image_columns(), product.rows * product.columns}, product.columns, 1};
    merge_batches(product);
    // Pieces begin at any image, which need not be a stride of the product.
    const auto b_alignment = static_cast<int>(std::gcd(piece_ * in_bytes(), std::int64_t{64}));
    return make_device_product({.device = device_of(request),
                                .node = request.node.name,
                                .type = request.outputs[0].type,
                                .product = product,
                                .b_alignment = b_alignment});
  }

  TransposedConvolution convolution_;
  int element_bytes_;
  std::int64_t piece_ = 1;  ///< images at a time
  std::int64_t column_bytes_ = 0;
  std::unique_ptr<DeviceProduct> whole_;
  std::unique_ptr<DeviceProduct> last_;  ///< for the images that are left
};

}  // namespace

std::unique_ptr<Kernel> make_conv_transpose(const KernelRequest& request) {
  return make_conv_transpose_within(request, std::int64_t{256} << 20);
}

std::unique_ptr<Kernel> make_conv_transpose_within(const KernelRequest& request,
                                                   std::int64_t most_column_bytes) {
  const TransposedConvolution convolution(request);
  const bool is_empty = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0 ||
                        request.outputs[0].elements() == 0;
  if (is_empty) return make_conv_transpose_loops(request);
  return std::make_unique<FoldedProduct>(request, convolution, most_column_bytes);
}

}  // namespace autopar::runtime::cuda
