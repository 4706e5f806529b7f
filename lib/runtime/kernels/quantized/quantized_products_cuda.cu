// QuantizedMatMul and QuantizedConv, where no library serves them: bytes are multiplied as they lie
// in the model, so that no tensor of what they stand for is ever made. Sums are exact, in 32 bits.
// A block has a tile of the result, a thread some elements of it 16 rows and columns apart.

#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/quantized/byte_products_cuda.h"
#include "runtime/kernels/quantized/integers.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int tile_depth = 16;
constexpr int columns_a_thread = 4;
constexpr int tile_columns = 16 * columns_a_thread;
constexpr int threads = 16 * 16;

/// How many rows, products and columns a batch of the product has.
struct ProductShape {
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  std::int64_t batches = 1;

  AUTOPAR_ELEMENTWISE std::int64_t column_tiles() const {
    return (columns + tile_columns - 1) / tile_columns;
  }
  AUTOPAR_ELEMENTWISE std::int64_t row_tiles(int tile_rows) const {
    return (rows + tile_rows - 1) / tile_rows;
  }
};

/// `Operands` tell the elements of a batch's operands around their zero points, a(row, k) and
/// b(k, column), and store what is made of a sum.
template <typename Operands, int RowsAThread>
__global__ void __launch_bounds__(threads)
    multiply_bytes(const __grid_constant__ Operands all, ProductShape shape) {
  constexpr int tile_rows = 16 * RowsAThread;
  __shared__ std::int32_t a_tile[tile_rows][tile_depth + 1];
  __shared__ std::int32_t b_tile[tile_depth][tile_columns + 1];
  const std::int64_t first_column = blockIdx.x % shape.column_tiles() * tile_columns;
  const std::int64_t tile_of_rows = blockIdx.x / shape.column_tiles();
  const std::int64_t first_row = tile_of_rows % shape.row_tiles(tile_rows) * tile_rows;
  const auto of = all.of_batch(tile_of_rows / shape.row_tiles(tile_rows));
  const int thread = static_cast<int>(threadIdx.x);
  const int x = thread % 16;
  const int y = thread / 16;
  std::int32_t sums[RowsAThread][columns_a_thread] = {};
  for (std::int64_t first_k = 0; first_k < shape.depth; first_k += tile_depth) {
    for (int i = thread; i < tile_rows * tile_depth; i += threads) {
      const std::int64_t row = first_row + i / tile_depth;
      const std::int64_t k = first_k + i % tile_depth;
      const bool is_there = row < shape.rows && k < shape.depth;
      a_tile[i / tile_depth][i % tile_depth] = is_there ? of.a(row, k) : 0;
    }
    for (int i = thread; i < tile_depth * tile_columns; i += threads) {
      const std::int64_t k = first_k + i / tile_columns;
      const std::int64_t column = first_column + i % tile_columns;
      const bool is_there = k < shape.depth && column < shape.columns;
      b_tile[i / tile_columns][i % tile_columns] = is_there ? of.b(k, column) : 0;
    }
    __syncthreads();
    for (int k = 0; k < tile_depth; ++k)
      for (int r = 0; r < RowsAThread; ++r)
        for (int c = 0; c < columns_a_thread; ++c)
          sums[r][c] += a_tile[y + 16 * r][k] * b_tile[k][x + 16 * c];
    __syncthreads();
  }
  for (int r = 0; r < RowsAThread; ++r)
    for (int c = 0; c < columns_a_thread; ++c) {
      const std::int64_t row = first_row + y + 16 * r;
      const std::int64_t column = first_column + x + 16 * c;
      if (row < shape.rows && column < shape.columns) of.store(row, column, sums[r][c]);
    }
}

/// Few rows, of a decoder's step or a depthwise convolution, would leave most of a large tile idle.
template <typename Operands>
void launch_product(const Operands& operands, const ProductShape& shape, cudaStream_t stream) {
  const auto launch_with = [&](auto kernel, int rows_a_thread) {
    const std::int64_t tiles =
        shape.batches * shape.row_tiles(16 * rows_a_thread) * shape.column_tiles();
    launch(stream, {dim3(static_cast<unsigned>(tiles)), dim3(threads)}, kernel, operands, shape);
  };
  if (shape.rows <= 16)
    launch_with(multiply_bytes<Operands, 1>, 1);
  else
    launch_with(multiply_bytes<Operands, 4>, 4);
}

template <typename A, typename B>
struct MatrixOperands {
  ProductStrides strides;
  std::int64_t scale_column;  ///< 0 where one scale serves all
  const A* a_data;
  const B* b_data;
  const float* scales;
  const A* a_zero;  ///< null for 0
  const B* b_zero;
  float* out;

  __device__ MatrixOperands of_batch(std::int64_t batch) const {
    MatrixOperands of = *this;
    for (int d = strides.batch_dimensions - 1; d >= 0; --d) {
      const std::int64_t index = batch % strides.batches[d];
      batch /= strides.batches[d];
      of.a_data += index * strides.a.batches[d];
      of.b_data += index * strides.b.batches[d];
      of.out += index * strides.out.batches[d];
    }
    return of;
  }
  __device__ std::int32_t a(std::int64_t row, std::int64_t k) const {
    return a_data[row * strides.a.row + k * strides.a.column] - zero_point_at(a_zero, 0);
  }
  __device__ std::int32_t b(std::int64_t k, std::int64_t column) const {
    return b_data[k * strides.b.row + column * strides.b.column] - zero_point_at(b_zero, 0);
  }
  __device__ void store(std::int64_t row, std::int64_t column, std::int32_t sum) const {
    out[row * strides.out.row + column] = static_cast<float>(sum) * scales[column * scale_column];
  }
};

/// Rows are a group's channels of the result, columns its places. A batch is a group of an image.
template <typename X, typename W>
struct WindowOperands {
  const X* x = nullptr;  ///< [images, groups, channels of a group, places]
  const W* w = nullptr;  ///< [groups, rows, channels of a group, taps]
  const float* scales = nullptr;
  const X* x_zero = nullptr;    ///< null for 0
  const float* bias = nullptr;  ///< null for none
  float* out = nullptr;         ///< [images, groups, rows, out places]
  Windows windows;
  std::int64_t groups = 1;
  std::int64_t group_channels = 0;
  std::int64_t group_rows = 0;
  std::int64_t scale_channel = 0;  ///< 0 where one scale serves all

  __device__ std::int64_t depth() const { return group_channels * windows.tap_places(); }

  __device__ WindowOperands of_batch(std::int64_t batch) const {
    WindowOperands of = *this;
    const std::int64_t first_channel = batch % groups * group_rows;
    of.x += batch * group_channels * windows.in_places();
    of.w += first_channel * depth();
    of.out += batch * group_rows * windows.out_places();
    of.scales += first_channel * scale_channel;
    if (bias != nullptr) of.bias += first_channel;
    return of;
  }
  /// Weights of uint8 stand around 128.
  __device__ std::int32_t a(std::int64_t row, std::int64_t k) const {
    return w[row * depth() + k] - (std::is_unsigned_v<W> ? 128 : 0);
  }
  /// Padding is the zero point.
  __device__ std::int32_t b(std::int64_t k, std::int64_t column) const {
    const std::int64_t taps = windows.tap_places();
    const std::int64_t offset =
        seen(windows, Place(column, windows.out), Place(k % taps, windows.taps));
    if (offset < 0) return 0;
    return x[k / taps * windows.in_places() + offset] - zero_point_at(x_zero, 0);
  }
  __device__ void store(std::int64_t row, std::int64_t column, std::int32_t sum) const {
    const float scaled = static_cast<float>(sum) * scales[row * scale_channel];
    out[row * windows.out_places() + column] = bias == nullptr ? scaled : scaled + bias[row];
  }
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_integer(const KernelRequest& request) {
  if (auto product = make_byte_product(request)) return product;
  return make_matmul_integer_loops(request);
}
std::unique_ptr<Kernel> make_conv_integer(const KernelRequest& request) {
  if (auto product = make_byte_convolution(request)) return product;
  return make_conv_integer_loops(request);
}

std::unique_ptr<Kernel> make_quantized_matmul(const KernelRequest& request) {
  if (request.outputs.at(0).elements() == 0) return std::make_unique<NoWork>();
  if (auto product = make_byte_product(request)) return product;
  const auto make = [&]<typename A, typename B>(A, B) {
    const Product product = byte_product(request);
    const ProductShape shape{product.rows, product.depth, product.columns,
                             graph::num_elements(product.batches)};
    const ProductStrides strides = byte_strides(request, product);
    const std::int64_t scale_column = request.inputs[2].elements() == 1 ? 0 : 1;
    return make_kernel([=](const KernelIo& io) {
      const MatrixOperands<A, B> operands{strides,
                                          scale_column,
                                          io.inputs[0].as<const A>(),
                                          io.inputs[1].as<const B>(),
                                          io.inputs[2].as<const float>(),
                                          optional_data<const A>(io.inputs, 3),
                                          optional_data<const B>(io.inputs, 4),
                                          io.outputs[0].as<float>()};
      launch_product(operands, shape, stream_of(io));
    });
  };
  return kernel_for_bytes(request, make);
}

std::unique_ptr<Kernel> make_quantized_conv(const KernelRequest& request) {
  if (request.outputs.at(0).elements() == 0) return std::make_unique<NoWork>();
  if (auto product = make_byte_convolution(request)) return product;
  const auto make = [&]<typename X, typename W>(X, W) {
    const TensorView& in = request.inputs[0];
    const TensorView& weights = request.inputs[1];
    const Convolution convolution = byte_convolution(request);
    WindowOperands<X, W> operands;
    operands.windows = windows_of(request, places_of(in), places_of(request.outputs[0]),
                                  places_of(weights), convolution.slide);
    operands.groups = convolution.groups;
    operands.group_channels = weights.shape[1];
    operands.group_rows = weights.shape[0] / convolution.groups;
    operands.scale_channel = request.inputs[2].elements() == 1 ? 0 : 1;
    const ProductShape shape{operands.group_rows,
                             operands.group_channels * operands.windows.tap_places(),
                             operands.windows.out_places(), in.shape[0] * convolution.groups};
    return make_kernel([=](const KernelIo& io) {
      WindowOperands<X, W> of = operands;
      of.x = io.inputs[0].as<const X>();
      of.w = io.inputs[1].as<const W>();
      of.scales = io.inputs[2].as<const float>();
      of.x_zero = optional_data<const X>(io.inputs, 3);
      of.bias = optional_data<const float>(io.inputs, 4);
      of.out = io.outputs[0].as<float>();
      launch_product(of, shape, stream_of(io));
    });
  };
  return kernel_for_bytes(request, make);
}

}  // namespace autopar::runtime::cuda
