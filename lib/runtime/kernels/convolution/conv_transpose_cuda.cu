// ConvTranspose: a product of each group's weights with its channels makes columns, what each
// window holds, and these are added up to the images.

#include "runtime/kernels/convolution/conv_cuda.h"

#include <numeric>
#include <optional>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/folding.h"
#include "runtime/kernels/convolution/kernels.h"

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
  FoldedProduct(const KernelRequest& request, const ConvolutionSizes& sizes,
                std::int64_t most_column_bytes)
      : sizes_(sizes), element_bytes_(element_bytes_of(request, request.outputs[0])) {
    const std::int64_t an_image = image_columns() * element_bytes_;
    const std::int64_t piece = images_at_a_time(sizes.images, an_image, most_column_bytes);
    column_bytes_ = graph::aligned(piece * an_image);
    // Pieces begin at any image, which need not be a stride of the product.
    const auto b_alignment = static_cast<int>(std::gcd(piece * in_bytes(), std::int64_t{64}));
    products_.emplace(sizes.images, piece, [&](std::int64_t images) {
      return make_device_product({.device = device_of(request),
                                  .node = request.node.name,
                                  .type = request.outputs[0].type,
                                  .product = product_of_images(images),
                                  .b_alignment = b_alignment});
    });
  }

  std::int64_t scratch_bytes() const override { return column_bytes_ + products_->scratch_bytes(); }

  void run(const KernelIo& io) override {
    const std::int64_t out_elements = sizes_.out_channels * sizes_.windows.in_places();
    products_->run([&](DeviceProduct& product, std::int64_t image, std::int64_t images) {
      const ProductData data = {.a = io.inputs[1].data,
                                .b = io.inputs[0].data + image * in_bytes(),
                                .c = nullptr,
                                .out = io.scratch};
      product.run(data, io.scratch + column_bytes_, stream_of(io));
      visit_type(io.outputs[0].type, AllFloats{}, [&]<typename T>(T) {
        Loops(stream_of(io), {})
            .each(images * out_elements,
                  ProductElement<T>{{reinterpret_cast<const T*>(io.scratch),
                                     optional_data<const T>(io.inputs, 2),
                                     io.outputs[0].as<T>() + image * out_elements, sizes_.windows,
                                     sizes_.out_channels}});
      });
    });
  }

 private:
  /// The size of one image of the input.
  std::int64_t in_bytes() const {
    return sizes_.channels * sizes_.windows.out_places() * element_bytes_;
  }
  std::int64_t image_columns() const {
    return sizes_.out_channels * sizes_.windows.tap_places() * sizes_.windows.out_places();
  }

  Product product_of_images(std::int64_t images) const {
    const std::int64_t groups = sizes_.groups;
    Product product;
    product.batches = {images, groups};
    product.rows = sizes_.out_channels / groups * sizes_.windows.tap_places();
    product.depth = sizes_.channels / groups;
    product.columns = sizes_.windows.out_places();
    product.a = {{0, product.rows * product.depth}, 1, product.rows};
    product.b = {{groups * product.depth * product.columns, product.depth * product.columns},
                 product.columns,
                 1};
    product.out = {{image_columns(), product.rows * product.columns}, product.columns, 1};
    merge_batches(product);
    return product;
  }

  ConvolutionSizes sizes_;
  int element_bytes_;
  std::int64_t column_bytes_ = 0;
  std::optional<ImageProducts> products_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_transpose(const KernelRequest& request) {
  return make_conv_transpose_within(request, std::int64_t{256} << 20);
}

std::unique_ptr<Kernel> make_conv_transpose_within(const KernelRequest& request,
                                                   std::int64_t most_column_bytes) {
  const ConvolutionSizes sizes = transposed_convolution_sizes(request);
  const bool is_empty = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0 ||
                        request.outputs[0].elements() == 0;
  if (is_empty) return make_conv_transpose_loops(request);
  return std::make_unique<FoldedProduct>(request, sizes, most_column_bytes);
}

}  // namespace autopar::runtime::cuda
