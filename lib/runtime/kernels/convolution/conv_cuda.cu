// Conv. The input's windows are laid out as the columns of a matrix, and each group of channels is
// a product of its weights with them; one place windows are the input itself. With one input
// channel a group there is nothing to multiply with: a thread computes each output.
// ConvTranspose: a product of each group's weights with its channels makes columns, what each
// window holds, and these are added up to the images.

#include <algorithm>
#include <numeric>

#include "graph/arena.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/convolution/folding.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/product/device_product_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// Products of images, some at a time.
class ImageProducts {
 public:
  /// `piece` images at a time, for which `make(images)` makes a product.
  template <typename Make>
  ImageProducts(std::int64_t images, std::int64_t piece, Make make)
      : images_(images), piece_(piece), whole_(make(piece)) {
    if (images % piece != 0) last_ = make(images % piece);
  }

  std::int64_t scratch_bytes() const {
    return std::max(whole_->scratch_bytes(), last_ ? last_->scratch_bytes() : std::int64_t{0});
  }

  /// Calls `run(product, first image, images)` for each piece.
  template <typename Run>
  void run(Run run) const {
    for (std::int64_t image = 0; image < images_; image += piece_) {
      const std::int64_t images = std::min(piece_, images_ - image);
      run(images == piece_ ? *whole_ : *last_, image, images);
    }
  }

 private:
  std::int64_t images_;
  std::int64_t piece_;
  std::unique_ptr<DeviceProduct> whole_;
  std::unique_ptr<DeviceProduct> last_;  ///< for the images that are left
};

/// How many images take `most_bytes` at most; one at least.
std::int64_t images_at_a_time(std::int64_t images, std::int64_t image_bytes,
                              std::int64_t most_bytes) {
  return std::clamp<std::int64_t>(most_bytes / std::max<std::int64_t>(image_bytes, 1), 1, images);
}

// ---- Conv --------------------------------------------------------------------------------------

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

/// Writes them to scratch memory.
void lay_out(const Windows& windows, int element_bytes, std::int64_t rows, std::int64_t packs_a_row,
             const std::byte* in, const KernelIo& io) {
  const std::int64_t packs = rows * packs_a_row;
  const auto launch_as = [&]<typename Bits>(Bits) {
    launch(stream_of(io), a_thread_each(packs), lay_out_windows<Bits>,
           reinterpret_cast<const Bits*>(in), reinterpret_cast<Bits*>(io.scratch), windows,
           packs_a_row, packs);
  };
  if (packs > 0)
    visit_size(element_bytes, Types<std::uint16_t, std::uint32_t, std::uint64_t>{}, launch_as);
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

/// The weights times the windows of images; rows of windows are `pitch` elements apart.
Product window_product(const ConvolutionSizes& sizes, std::int64_t images, std::int64_t pitch) {
  Product product;
  product.batches = {images, sizes.groups};
  product.rows = sizes.out_channels / sizes.groups;
  product.depth = sizes.channels * sizes.windows.tap_places() / sizes.groups;
  product.columns = sizes.windows.out_places();
  const std::int64_t of_group = product.rows * product.columns;
  product.a = {{0, product.rows * product.depth}, product.depth, 1};
  product.b = {{sizes.groups * product.depth * pitch, product.depth * pitch}, pitch, 1};
  product.out = {{sizes.groups * of_group, of_group}, product.columns, 1};
  if (sizes.has_bias) product.c = MatrixLayout{{0, product.rows}, 1, 0};
  merge_batches(product);
  return product;
}

std::unique_ptr<Kernel> make_matrix_conv(const KernelRequest& request,
                                         const ConvolutionSizes& sizes,
                                         std::int64_t most_window_bytes) {
  const Windows& windows = sizes.windows;
  const bool has_windows = !windows.is_identity();
  const int element_bytes = element_bytes_of(request, request.outputs[0]);
  const std::int64_t pack = 16 / element_bytes;
  const std::int64_t packs_a_row = (windows.out_places() + pack - 1) / pack;
  const std::int64_t pitch = has_windows ? packs_a_row * pack : windows.in_places();
  const std::int64_t image_rows = sizes.channels * windows.tap_places();
  const std::int64_t an_image = image_rows * pitch * element_bytes;
  const std::int64_t piece =
      has_windows ? images_at_a_time(sizes.images, an_image, most_window_bytes) : sizes.images;
  if (has_windows && piece * image_rows * packs_a_row >= std::int64_t{1} << 31)
    fail("node '{}': the windows of one image of Conv take {} bytes, too many for its kernel",
         request.node.name, an_image);
  const std::int64_t window_bytes = has_windows ? graph::aligned(piece * an_image) : 0;
  const std::int64_t in_bytes = sizes.channels * windows.in_places() * element_bytes;
  const std::int64_t out_bytes = sizes.out_channels * windows.out_places() * element_bytes;
  // Pieces begin at any image, which need not be a stride of the product.
  const auto out_alignment = static_cast<int>(std::gcd(piece * out_bytes, std::int64_t{64}));
  ImageProducts products(sizes.images, piece, [&](std::int64_t images) {
    return make_device_product({device_of(request), request.node.name, request.outputs[0].type,
                                window_product(sizes, images, pitch), out_alignment});
  });
  const std::int64_t scratch_bytes = window_bytes + products.scratch_bytes();
  auto run = [=, products = std::move(products)](const KernelIo& io) {
    products.run([&](DeviceProduct& product, std::int64_t image, std::int64_t images) {
      const std::byte* in = io.inputs[0].data + image * in_bytes;
      if (has_windows) {
        lay_out(sizes.windows, element_bytes, images * image_rows, packs_a_row, in, io);
        in = io.scratch;
      }
      const ProductData data = {.a = io.inputs[1].data,
                                .b = in,
                                .c = sizes.has_bias ? io.inputs[2].data : nullptr,
                                .out = io.outputs[0].data + image * out_bytes};
      product.run(data, io.scratch + window_bytes, stream_of(io));
    });
  };
  return make_kernel(std::move(run), scratch_bytes);
}

// ---- ConvTranspose -----------------------------------------------------------------------------

/// A type of its own: a kernel that two sources instantiate cannot be linked into the emulation.
template <typename T>
struct ProductElement : FoldedElement<T> {};

/// The weights, transposed, times the channels of images.
Product column_product(const ConvolutionSizes& sizes, std::int64_t images) {
  Product product;
  product.batches = {images, sizes.groups};
  product.rows = sizes.out_channels / sizes.groups * sizes.windows.tap_places();
  product.depth = sizes.channels / sizes.groups;
  product.columns = sizes.windows.out_places();
  const std::int64_t in_group = product.depth * product.columns;
  const std::int64_t of_group = product.rows * product.columns;
  product.a = {{0, product.rows * product.depth}, 1, product.rows};
  product.b = {{sizes.groups * in_group, in_group}, product.columns, 1};
  product.out = {{sizes.groups * of_group, of_group}, product.columns, 1};
  merge_batches(product);
  return product;
}

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
  return make_matrix_conv(request, sizes, most_window_bytes);
}

std::unique_ptr<Kernel> make_conv_transpose(const KernelRequest& request) {
  return make_conv_transpose_within(request, std::int64_t{256} << 20);
}

std::unique_ptr<Kernel> make_conv_transpose_within(const KernelRequest& request,
                                                   std::int64_t most_column_bytes) {
  const ConvolutionSizes sizes = transposed_convolution_sizes(request);
  const Windows& windows = sizes.windows;
  const DataType type = request.outputs[0].type;
  const bool is_empty = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0 ||
                        request.outputs[0].elements() == 0;
  if (is_empty) return make_conv_transpose_loops(request);
  const int element_bytes = element_bytes_of(request, request.outputs[0]);
  const std::int64_t in_bytes = sizes.channels * windows.out_places() * element_bytes;
  const std::int64_t out_elements = sizes.out_channels * windows.in_places();
  const std::int64_t an_image =
      sizes.out_channels * windows.tap_places() * windows.out_places() * element_bytes;
  const std::int64_t piece = images_at_a_time(sizes.images, an_image, most_column_bytes);
  const std::int64_t column_bytes = graph::aligned(piece * an_image);
  // Pieces begin at any image, which need not be a stride of the product.
  const auto b_alignment = static_cast<int>(std::gcd(piece * in_bytes, std::int64_t{64}));
  ImageProducts products(sizes.images, piece, [&](std::int64_t images) {
    return make_device_product({.device = device_of(request),
                                .node = request.node.name,
                                .type = type,
                                .product = column_product(sizes, images),
                                .b_alignment = b_alignment});
  });
  const std::int64_t scratch_bytes = column_bytes + products.scratch_bytes();
  auto run = [=, products = std::move(products)](const KernelIo& io) {
    products.run([&](DeviceProduct& product, std::int64_t image, std::int64_t images) {
      const ProductData data = {.a = io.inputs[1].data,
                                .b = io.inputs[0].data + image * in_bytes,
                                .c = nullptr,
                                .out = io.scratch};
      product.run(data, io.scratch + column_bytes, stream_of(io));
      visit_type(type, AllFloats{}, [&]<typename T>(T) {
        Loops(stream_of(io), {})
            .each(images * out_elements,
                  ProductElement<T>{{reinterpret_cast<const T*>(io.scratch),
                                     optional_data<const T>(io.inputs, 2),
                                     io.outputs[0].as<T>() + image * out_elements, sizes.windows,
                                     sizes.out_channels}});
      });
    });
  };
  return make_kernel(std::move(run), scratch_bytes);
}

}  // namespace autopar::runtime::cuda
