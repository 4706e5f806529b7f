// Conv. The input's windows are laid out as the columns of a matrix, and each group of channels is
// a product of its weights with them; one place windows are the input itself. With one input
// channel a group there is nothing to multiply with: a thread computes each output.

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "graph/arena.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/no_work.h"
#include "runtime/kernels/convolution/conv_cuda.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/product/device_product_cuda.h"
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

/// One input channel for `multiplier` output channels.
template <typename T>
__global__ void convolve_channels(const T* in, const T* weights, const T* bias, T* out,
                                  Windows windows, std::int64_t out_channels, int multiplier,
                                  std::int64_t elements) {
  const std::int64_t index = global_thread();
  if (index >= elements) return;
  const std::int64_t places = windows.out_places();
  const std::int64_t plane = index / places;
  const Place place(static_cast<unsigned>(index % places), windows.out);
  const std::int64_t channel = plane % out_channels;
  const T* seen_plane = in + plane / multiplier * windows.in_places();
  const int taps = static_cast<int>(windows.tap_places());
  Wide<T> sum = bias == nullptr ? Wide<T>{} : widened(bias[channel]);
  Place tap(0, windows.taps);
  for (int t = 0; t < taps; ++t) {
    const std::int64_t offset = seen(windows, place, tap);
    if (offset >= 0) sum += widened(seen_plane[offset]) * widened(weights[channel * taps + t]);
    tap.advance(windows.taps);
  }
  out[index] = narrowed<T>(sum);
}

/// What the kernels ask of a node.
struct Sizes {
  Windows windows;
  std::int64_t images = 0;
  std::int64_t channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t groups = 1;
  bool has_bias = false;
};

class DepthwiseConv final : public Kernel {
 public:
  explicit DepthwiseConv(const Sizes& sizes) : sizes_(sizes) {}

  void run(const KernelIo& io) override {
    const TensorView& out = io.outputs[0];
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      const T* bias = sizes_.has_bias ? io.inputs[2].as<const T>() : nullptr;
      launch(stream_of(io), a_thread_each(out.elements()), convolve_channels<T>,
             io.inputs[0].as<const T>(), io.inputs[1].as<const T>(), bias, out.as<T>(),
             sizes_.windows, sizes_.out_channels,
             static_cast<int>(sizes_.out_channels / sizes_.channels), out.elements());
    });
  }

 private:
  Sizes sizes_;
};

class MatrixConv final : public Kernel {
 public:
  MatrixConv(const KernelRequest& request, const Sizes& sizes, std::int64_t most_window_bytes)
      : sizes_(sizes), element_bytes_(element_bytes_of(request, request.outputs[0])) {
    const Windows& windows = sizes.windows;
    const std::int64_t pack = 16 / element_bytes_;
    packs_a_row_ = (windows.out_places() + pack - 1) / pack;
    pitch_ = windows.is_identity() ? windows.in_places() : packs_a_row_ * pack;
    piece_ = sizes.images;
    if (!windows.is_identity()) {
      const std::int64_t an_image = image_rows() * pitch_ * element_bytes_;
      piece_ = std::clamp<std::int64_t>(most_window_bytes / std::max<std::int64_t>(an_image, 1), 1,
                                        sizes.images);
      window_bytes_ = graph::aligned(piece_ * an_image);
      if (piece_ * image_rows() * packs_a_row_ >= std::int64_t{1} << 31)
        fail("node '{}': the windows of one image of Conv take {} bytes, too many for its kernel",
             request.node.name, an_image);
    }
    whole_ = make_product(request, piece_);
    if (sizes.images % piece_ != 0) last_ = make_product(request, sizes.images % piece_);
  }

  std::int64_t scratch_bytes() const override {
    return window_bytes_ +
           std::max(whole_->scratch_bytes(), last_ ? last_->scratch_bytes() : std::int64_t{0});
  }

  void run(const KernelIo& io) override {
    const std::int64_t in_bytes = sizes_.channels * sizes_.windows.in_places() * element_bytes_;
    const std::int64_t out_bytes = image_elements() * element_bytes_;
    for (std::int64_t image = 0; image < sizes_.images; image += piece_) {
      const std::int64_t images = std::min(piece_, sizes_.images - image);
      const std::byte* in = io.inputs[0].data + image * in_bytes;
      if (!sizes_.windows.is_identity()) in = lay_out(in, images, io);
      const ProductData data = {.a = io.inputs[1].data,
                                .b = in,
                                .c = sizes_.has_bias ? io.inputs[2].data : nullptr,
                                .out = io.outputs[0].data + image * out_bytes};
      DeviceProduct& product = images == piece_ ? *whole_ : *last_;
      product.run(data, io.scratch + window_bytes_, stream_of(io));
    }
  }

 private:
  /// Rows of windows of one image.
  std::int64_t image_rows() const { return sizes_.channels * sizes_.windows.tap_places(); }
  std::int64_t image_elements() const { return sizes_.out_channels * sizes_.windows.out_places(); }

  std::unique_ptr<DeviceProduct> make_product(const KernelRequest& request, std::int64_t images) {
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
    const auto out_alignment =
        static_cast<int>(std::gcd(piece_ * image_elements() * element_bytes_, std::int64_t{64}));
    return make_device_product(
        {device_of(request), request.node.name, request.outputs[0].type, product, out_alignment});
  }

  const std::byte* lay_out(const std::byte* in, std::int64_t images, const KernelIo& io) const {
    const std::int64_t packs = images * image_rows() * packs_a_row_;
    const auto launch_as = [&]<typename Bits>(Bits) {
      launch(stream_of(io), a_thread_each(packs), lay_out_windows<Bits>,
             reinterpret_cast<const Bits*>(in), reinterpret_cast<Bits*>(io.scratch), sizes_.windows,
             packs_a_row_, packs);
    };
    if (packs == 0) return io.scratch;
    if (element_bytes_ == 2)
      launch_as(std::uint16_t{});
    else if (element_bytes_ == 4)
      launch_as(std::uint32_t{});
    else
      launch_as(std::uint64_t{});
    return io.scratch;
  }

  Sizes sizes_;
  int element_bytes_;
  std::int64_t packs_a_row_ = 0;
  std::int64_t pitch_ = 0;  ///< elements between rows of windows
  std::int64_t piece_ = 0;  ///< images at a time
  std::int64_t window_bytes_ = 0;
  std::unique_ptr<DeviceProduct> whole_;
  std::unique_ptr<DeviceProduct> last_;  ///< for the images that are left
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  return make_conv_within(request, std::int64_t{256} << 20);
}

std::unique_ptr<Kernel> make_conv_within(const KernelRequest& request,
                                         std::int64_t most_window_bytes) {
  const TensorView& in = request.inputs[0];
  const TensorView& weights = request.inputs[1];
  const DataType type = in.type;
  if (!visit_type(type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, type);
  if (request.outputs[0].elements() == 0) return std::make_unique<NoWork>();
  const Convolution convolution = convolution_of(request);
  const Sizes sizes{.windows = windows_of(request, places_of(in), places_of(request.outputs[0]),
                                          places_of(weights), convolution.slide),
                    .images = in.shape[0],
                    .channels = in.shape[1],
                    .out_channels = weights.shape[0],
                    .groups = convolution.groups,
                    .has_bias = convolution.has_bias};
  const bool is_depthwise = weights.shape[1] == 1 && sizes.groups > 1;
  if (is_depthwise) return std::make_unique<DepthwiseConv>(sizes);
  return std::make_unique<MatrixConv>(request, sizes, most_window_bytes);
}

}  // namespace autopar::runtime::cuda
