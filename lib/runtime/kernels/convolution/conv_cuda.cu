// Conv. The input's windows are laid out as the columns of a matrix, and each group of channels is
// a product of its weights with them; one place windows are the input itself. With one input
// channel a group there is nothing to multiply with: a thread computes each output.

#include "runtime/kernels/convolution/conv_cuda.h"

#include <numeric>
#include <optional>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/product/product_finish_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// Rows of `pitch` elements, one for each channel of each image and each tap: what it sees at each
/// output place. A thread writes 16 bytes. Bits stands for every type of its size, all of which
/// have zero as their padding.
template <typename Bits>
__global__ void lay_out_windows(const Bits* in, Bits* rows, Windows windows, unsigned packs_a_row,
                                unsigned packs) {
  constexpr int width = full_pack<Bits>;
  const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= packs) return;
  const auto taps = static_cast<unsigned>(windows.tap_places());
  const auto places = static_cast<unsigned>(windows.out_places());
  const unsigned row = index / packs_a_row;
  const unsigned first = index % packs_a_row * width;
  const Place tap(row % taps, windows.taps);
  const Bits* channel = in + row / taps * windows.in_places();
  Place place(first, windows.out);
  Pack<Bits, width> pack;
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const std::int64_t offset = first + i < places ? seen(windows, place, tap) : -1;
    pack.values[i] = offset < 0 ? Bits{0} : channel[offset];
    place.advance(windows.out);
  }
  store_pack(rows + static_cast<std::int64_t>(index) * width, pack);
}

/// One input channel for `multiplier` output channels: an element of the result.
template <typename T>
struct ChannelConvolution {
  const T* in;       ///< [images, channels, places]
  const T* weights;  ///< [out channels, taps]
  const T* bias;     ///< [out channels]; may be null
  T* out;            ///< [images, out channels, places]
  Windows windows;
  std::int64_t out_channels;
  std::int64_t multiplier;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t index) const {
    const std::int64_t places = windows.out_places();
    const std::int64_t plane = index / places;
    const Place place(index % places, windows.out);
    const std::int64_t channel = plane % out_channels;
    const T* seen_plane = in + plane / multiplier * windows.in_places();
    const int taps = static_cast<int>(windows.tap_places());
    Widened<T> sum = bias == nullptr ? Widened<T>{} : widened(bias[channel]);
    Place tap(0, windows.taps);
    for (int t = 0; t < taps; ++t) {
      const std::int64_t offset = seen(windows, place, tap);
      if (offset >= 0) sum += widened(seen_plane[offset]) * widened(weights[channel * taps + t]);
      tap.advance(windows.taps);
    }
    out[index] = narrowed<T>(sum);
  }
};

std::unique_ptr<Kernel> make_depthwise_conv(const KernelRequest& request,
                                            const ConvolutionSizes& sizes) {
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(io.outputs[0].elements(),
                 ChannelConvolution<T>{io.inputs[0].as<const T>(), io.inputs[1].as<const T>(),
                                       optional_data<const T>(io.inputs, 2), io.outputs[0].as<T>(),
                                       sizes.windows, sizes.out_channels,
                                       sizes.out_channels / sizes.channels});
    });
  });
}

class MatrixConv final : public Kernel {
 public:
  MatrixConv(const KernelRequest& request, const ConvolutionSizes& sizes,
             std::int64_t most_window_bytes)
      : sizes_(sizes), element_bytes_(element_bytes_of(request, request.outputs[0])) {
    const Windows& windows = sizes.windows;
    const std::int64_t pack = 16 / element_bytes_;
    packs_a_row_ = (windows.out_places() + pack - 1) / pack;
    pitch_ = windows.is_identity() ? windows.in_places() : packs_a_row_ * pack;
    std::int64_t piece = sizes.images;
    if (!windows.is_identity()) {
      const std::int64_t an_image = image_rows() * pitch_ * element_bytes_;
      piece = images_at_a_time(sizes.images, an_image, most_window_bytes);
      window_bytes_ = graph::aligned(piece * an_image);
      if (piece * image_rows() * packs_a_row_ >= std::int64_t{1} << 31)
        fail("node '{}': the windows of one image of Conv take {} bytes, too many for its kernel",
             request.node.name, an_image);
    }
    // Pieces begin at any image, which need not be a stride of the product.
    const auto out_alignment =
        static_cast<int>(std::gcd(piece * image_elements() * element_bytes_, std::int64_t{64}));
    products_.emplace(sizes.images, piece, [&](std::int64_t images) {
      return make_device_product({device_of(request), request.node.name, request.outputs[0].type,
                                  product_of_images(images), out_alignment});
    });
  }

  std::int64_t scratch_bytes() const override { return window_bytes_ + products_->scratch_bytes(); }

  void run(const KernelIo& io) override {
    const std::int64_t in_bytes = sizes_.channels * sizes_.windows.in_places() * element_bytes_;
    const std::int64_t out_bytes = image_elements() * element_bytes_;
    products_->run([&](DeviceProduct& product, std::int64_t image, std::int64_t images) {
      const std::byte* in = io.inputs[0].data + image * in_bytes;
      if (!sizes_.windows.is_identity()) in = lay_out(in, images, io);
      const ProductData data = {.a = io.inputs[1].data,
                                .b = in,
                                .c = sizes_.has_bias ? io.inputs[2].data : nullptr,
                                .out = io.outputs[0].data + image * out_bytes};
      product.run(data, io.scratch + window_bytes_, stream_of(io));
    });
  }

 private:
  /// Rows of windows of one image.
  std::int64_t image_rows() const { return sizes_.channels * sizes_.windows.tap_places(); }
  std::int64_t image_elements() const { return sizes_.out_channels * sizes_.windows.out_places(); }

  Product product_of_images(std::int64_t images) const {
    const std::int64_t groups = sizes_.groups;
    Product product;
    product.batches = {images, groups};
    product.rows = sizes_.out_channels / groups;
    product.depth = image_rows() / groups;
    product.columns = sizes_.windows.out_places();
    product.a = {{0, product.rows * product.depth}, product.depth, 1};
    product.b = {{image_rows() * pitch_, product.depth * pitch_}, pitch_, 1};
    product.out = {{image_elements(), product.rows * product.columns}, product.columns, 1};
    if (sizes_.has_bias) product.c = MatrixLayout{{0, product.rows}, 1, 0};
    merge_batches(product);
    return product;
  }

  const std::byte* lay_out(const std::byte* in, std::int64_t images, const KernelIo& io) const {
    const std::int64_t packs = images * image_rows() * packs_a_row_;
    const auto launch_as = [&]<typename Bits>(Bits) {
      launch(stream_of(io), a_thread_each(packs), lay_out_windows<Bits>,
             reinterpret_cast<const Bits*>(in), reinterpret_cast<Bits*>(io.scratch), sizes_.windows,
             packs_a_row_, packs);
    };
    if (packs == 0) return io.scratch;
    visit_size(element_bytes_, Types<std::uint16_t, std::uint32_t, std::uint64_t>{}, launch_as);
    return io.scratch;
  }

  ConvolutionSizes sizes_;
  int element_bytes_;
  std::int64_t packs_a_row_ = 0;
  std::int64_t pitch_ = 0;  ///< elements between rows of windows
  std::int64_t window_bytes_ = 0;
  std::optional<ImageProducts> products_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  return make_conv_within(request, std::int64_t{256} << 20);
}

std::unique_ptr<Kernel> make_conv_within(const KernelRequest& request,
                                         std::int64_t most_window_bytes) {
  require_type(request, request.inputs[0].type, AllFloats{});
  if (request.outputs[0].elements() == 0) return std::make_unique<NoWork>();
  const ConvolutionSizes sizes = convolution_sizes(request);
  const bool is_depthwise = request.inputs[1].shape[1] == 1 && sizes.groups > 1;
  if (is_depthwise) return make_depthwise_conv(request, sizes);
  return std::make_unique<MatrixConv>(request, sizes, most_window_bytes);
}

}  // namespace autopar::runtime::cuda
