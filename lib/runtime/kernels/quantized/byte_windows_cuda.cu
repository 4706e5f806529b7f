#include "runtime/kernels/quantized/byte_products_cuda.h"

#include "runtime/kernels/quantized/packed_bytes_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// What the windows of a group see, a vector a place of the result, of one image after another.
template <typename X>
struct WindowVectors {
  const X* x;     ///< of the group
  const X* zero;  ///< what padding has; null for 0
  std::int64_t count;
  std::int64_t depth;
  std::int64_t first = 0;
  std::int64_t image_stride;
  Windows windows;
  FastDivisor places;
  FastDivisor taps;

  __device__ bool takes_depth_first() const { return false; }
  __device__ std::int8_t packed_at(std::int64_t vector, std::int64_t k) const {
    auto image = static_cast<std::uint32_t>(first + vector);
    const std::uint32_t place = places.divide(image);
    auto channel = static_cast<std::uint32_t>(k);
    const std::uint32_t tap = taps.divide(channel);
    const std::int64_t offset = seen(windows, Place(place, windows.out), Place(tap, windows.taps));
    const int value = offset < 0 ? zero_point_at(zero, 0)
                                 : x[image * image_stride + channel * windows.in_places() + offset];
    return static_cast<std::int8_t>(value - origin<X>);
  }
};

/// The inputs beside images and weights; 0 where the operator has none.
struct Places {
  std::size_t x_zero;
  std::size_t w_zero;
  std::size_t scale;
  std::size_t bias;
};

template <typename T>
const T* data_or_null(const KernelIo& io, std::size_t input) {
  return input == 0 ? nullptr : optional_data<const T>(io.inputs, input);
}

template <typename X, typename W, typename Out>
std::unique_ptr<Kernel> make(const KernelRequest& request, const ConvolutionSizes& sizes,
                             const Places& places) {
  const Windows& windows = sizes.windows;
  const std::int64_t group_channels = sizes.channels / sizes.groups;
  const std::int64_t group_rows = sizes.out_channels / sizes.groups;
  const std::int64_t depth = group_channels * windows.tap_places();
  const std::int64_t out_places = windows.out_places();
  const ColumnTurns turns = turns_of(group_rows, sizes.images * out_places);
  PackedProducts packed(request, group_rows, turns.columns, depth);
  if (!packed.are_served()) return nullptr;
  const std::int64_t scratch_bytes = packed.scratch_bytes();
  const std::int64_t w_zero_stride = places.w_zero == 0 ? 0 : stride_of(request, places.w_zero);
  const std::int64_t scale_stride = places.scale == 0 ? 0 : stride_of(request, places.scale);
  auto run = [=, packed = std::move(packed)](const KernelIo& io) {
    const cudaStream_t stream = stream_of(io);
    const auto moved = [](const auto* pointer, std::int64_t by) {
      return pointer == nullptr ? nullptr : pointer + by;
    };
    const X* const x_zero = data_or_null<X>(io, places.x_zero);
    const W* const w_zero = data_or_null<W>(io, places.w_zero);
    const float* const scales = data_or_null<float>(io, places.scale);
    const float* const bias = data_or_null<float>(io, places.bias);
    const PackTarget rows = packed.rows(io.scratch);
    const PackTarget columns = packed.columns(io.scratch);
    for (std::int64_t group = 0; group < sizes.groups; ++group) {
      const std::int64_t first_row = group * group_rows;
      pack(Vectors<W>{io.inputs[1].as<const W>() + first_row * depth, group_rows, depth, depth, 1},
           rows, stream);
      WindowVectors<X> seen_by_windows{
          .x = io.inputs[0].as<const X>() + group * group_channels * windows.in_places(),
          .zero = x_zero,
          .count = turns.columns,
          .depth = depth,
          .image_stride = sizes.channels * windows.in_places(),
          .windows = windows,
          .places = FastDivisor(out_places),
          .taps = FastDivisor(windows.tap_places())};
      ByteResults<W, X, Out> results{
          .padded_columns = packed.padded_columns(),
          .row_sums = rows.sums,
          .column_sums = columns.sums,
          // Where weights have no zero point they stand around the middle of their type.
          .row_zeros = {moved(w_zero, first_row * w_zero_stride), w_zero_stride,
                        places.w_zero == 0 ? origin<W> : 0},
          .column_zeros = {x_zero, 0},
          .scales = moved(scales, first_row * scale_stride),
          .scale_row_stride = scale_stride,
          .bias = moved(bias, first_row),
          .out = io.outputs[0].as<Out>() + first_row * out_places,
          .row_stride = out_places,
          .image_stride = sizes.out_channels * out_places,
          .depth = static_cast<std::uint32_t>(depth),
          .elements = static_cast<std::uint32_t>(group_rows * turns.columns),
          .columns = FastDivisor(turns.columns),
          .places = FastDivisor(out_places)};
      for (std::int64_t turn = 0; turn < turns.count; ++turn) {
        seen_by_windows.first = turns.first(turn);
        results.first_column = static_cast<std::uint32_t>(turns.first(turn));
        pack(seen_by_windows, columns, stream);
        results.products = packed.multiply(io.scratch, stream);
        launch(stream, a_thread_each(results.elements), finish_products<W, X, Out>, results);
      }
    }
  };
  return make_kernel(std::move(run), scratch_bytes);
}

/// A depthwise convolution, among others, is no product of matrices.
bool serves(const KernelRequest& request, const ConvolutionSizes& sizes, const Places& places) {
  constexpr std::int64_t least_rows = 16;
  constexpr std::int64_t least_depth = 64;
  constexpr std::int64_t least_columns = 64;
  const std::int64_t rows = sizes.out_channels / sizes.groups;
  const std::int64_t depth = sizes.channels / sizes.groups * sizes.windows.tap_places();
  const std::int64_t columns = sizes.images * sizes.windows.out_places();
  return rows >= least_rows && depth >= least_depth && columns >= least_columns &&
         can_be_counted(rows, columns, depth) &&
         (places.w_zero == 0 || is_one_or(request, places.w_zero, sizes.out_channels));
}

}  // namespace

std::unique_ptr<Kernel> make_byte_convolution(const KernelRequest& request) {
  const bool is_scaled = request.outputs.at(0).type == DataType::float32;
  const Places places = is_scaled ? Places{.x_zero = 3, .w_zero = 0, .scale = 2, .bias = 4}
                                  : Places{.x_zero = 2, .w_zero = 3, .scale = 0, .bias = 0};
  constexpr std::size_t most_dimensions = 2 + Windows::dimensions;
  if (request.outputs[0].elements() == 0 || request.inputs.at(0).shape.size() > most_dimensions)
    return nullptr;
  const ConvolutionSizes sizes = byte_convolution_sizes(request);
  if (!serves(request, sizes, places)) return nullptr;
  return kernel_for_bytes(request, [&]<typename X, typename W>(X, W) {
    return is_scaled ? make<X, W, float>(request, sizes, places)
                     : make<X, W, std::int32_t>(request, sizes, places);
  });
}

}  // namespace autopar::runtime::cuda
