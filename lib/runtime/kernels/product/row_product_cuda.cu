// Few rows times a matrix of weights. All that counts is that the weights stream through: each is
// read once, 16 bytes at a time, by many threads at once; the rows stay in the cache. Sums are in
// float, and put together in a fixed order.

#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/product/product_finish_cuda.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int most_rows = 4;

template <typename T>
struct RowProductData {
  const T* a = nullptr;
  const T* weights = nullptr;
  const T* bias = nullptr;
  T* out = nullptr;
};

struct RowShapes {
  int rows = 0;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  std::int64_t a_stride = 0;
  /// Between the vectors of weights that lie together: columns if `by_columns`, else rows.
  std::int64_t weight_stride = 0;
  std::int64_t out_stride = 0;
  bool by_columns = false;
  Activation activation = Activation::none;
};

template <typename T>
__device__ __forceinline__ void store(const RowProductData<T>& data, const RowShapes& shapes,
                                      int row, std::int64_t column, float sum) {
  if (row >= shapes.rows || column >= shapes.columns) return;
  if (data.bias != nullptr) sum += widened(data.bias[column]);
  data.out[row * shapes.out_stride + column] = narrowed<T>(activated(sum, shapes.activation));
}

/// Rows beyond the last are computed as the last, and not stored.
__device__ __forceinline__ std::int64_t row_at(int row, const RowShapes& shapes) {
  return row < shapes.rows ? row : shapes.rows - 1;
}

/// Zeros where it is not there. Loads that are asked for together, a thread's next few, are on
/// their way together.
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> load_if(bool is_there, const T* from) {
  Pack<T, N> pack{};
  if (is_there) pack = load_pack<T, N>(from);
  return pack;
}

constexpr int column_warps = 4;
constexpr int columns_a_warp = 2;

/// Weights whose columns lie together: warps take two columns, one warp both or all of a block's
/// warps a part of the sums each.
template <typename T, int Rows>
__global__ void __launch_bounds__(column_warps* warp_lanes)
    multiply_columns(RowProductData<T> data, RowShapes shapes, int warps_a_column) {
  constexpr int width = full_pack<T>;
  __shared__ float parts[column_warps][Rows * columns_a_warp];
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const int warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const int part = warp % warps_a_column;
  const std::int64_t group = blockIdx.x * (column_warps / warps_a_column) + warp / warps_a_column;
  const std::int64_t first = group * columns_a_warp;
  const T* weights[columns_a_warp];
#pragma unroll
  for (int c = 0; c < columns_a_warp; ++c) {
    const std::int64_t column = first + c < shapes.columns ? first + c : shapes.columns - 1;
    weights[c] = data.weights + column * shapes.weight_stride;
  }
  constexpr int ahead = Rows == 1 ? 4 : 2;
  const std::int64_t step = warps_a_column * warp_lanes * width;
  float sums[Rows][columns_a_warp] = {};
  for (std::int64_t k = (part * warp_lanes + lane) * width; k < shapes.depth; k += ahead * step) {
    Pack<T, width> packs[ahead][columns_a_warp];
#pragma unroll
    for (int j = 0; j < ahead; ++j)
#pragma unroll
      for (int c = 0; c < columns_a_warp; ++c)
        packs[j][c] = load_if<T, width>(k + j * step < shapes.depth, weights[c] + k + j * step);
#pragma unroll
    for (int j = 0; j < ahead; ++j)
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        const T* row = data.a + row_at(r, shapes) * shapes.a_stride;
        const auto x = load_if<T, width>(k + j * step < shapes.depth, row + k + j * step);
#pragma unroll
        for (int c = 0; c < columns_a_warp; ++c)
#pragma unroll
          for (int i = 0; i < width; ++i)
            sums[r][c] += widened(x.values[i]) * widened(packs[j][c].values[i]);
      }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < columns_a_warp; ++c) {
      const float sum = reduce_warp(sums[r][c], [](float x, float y) { return x + y; });
      if (lane == 0) parts[warp][r * columns_a_warp + c] = sum;
    }
  __syncthreads();
  if (part != 0 || lane >= Rows * columns_a_warp) return;
  float sum = 0;
  for (int p = 0; p < warps_a_column; ++p) sum += parts[warp + p][lane];
  store(data, shapes, lane / columns_a_warp, first + lane % columns_a_warp, sum);
}

constexpr int row_threads = 512;
constexpr int row_warps = row_threads / warp_lanes;
constexpr int most_lanes = 16;

/// Weights whose rows lie together: `lanes` neighbouring threads read 16 bytes each of one row, the
/// block's others of other rows, and then their sums are put together.
template <typename T, int Rows>
__global__ void __launch_bounds__(row_threads)
    multiply_rows(RowProductData<T> data, RowShapes shapes, int lanes) {
  constexpr int width = full_pack<T>;
  __shared__ float parts[row_warps][Rows * most_lanes * width];
  const int thread = static_cast<int>(threadIdx.x);
  const int place = thread % lanes;
  const int block_columns = lanes * width;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_columns;
  const std::int64_t column = first + place * width;
  float sums[Rows][width] = {};
  if (column < shapes.columns) {
    const T* weights = data.weights + column;
    constexpr int ahead = Rows == 1 ? 8 : 4;
    const int step = row_threads / lanes;
    for (std::int64_t k = thread / lanes; k < shapes.depth; k += ahead * step) {
      Pack<T, width> packs[ahead];
#pragma unroll
      for (int j = 0; j < ahead; ++j)
        packs[j] = load_if<T, width>(k + j * step < shapes.depth,
                                     weights + (k + j * step) * shapes.weight_stride);
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        if (k + j * step >= shapes.depth) break;
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          const float x = widened(data.a[row_at(r, shapes) * shapes.a_stride + k + j * step]);
#pragma unroll
          for (int i = 0; i < width; ++i) sums[r][i] += x * widened(packs[j].values[i]);
        }
      }
    }
  }
  const int warp = thread / warp_lanes;
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int i = 0; i < width; ++i) {
      float sum = sums[r][i];
      for (int distance = lanes; distance < warp_lanes; distance *= 2)
        sum += __shfl_xor_sync(all_lanes, sum, distance);
      if (thread % warp_lanes < lanes) parts[warp][r * block_columns + place * width + i] = sum;
    }
  __syncthreads();
  if (thread >= Rows * block_columns) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < row_warps; ++w) sum += parts[w][thread];
  store(data, shapes, thread / block_columns, first + thread % block_columns, sum);
}

template <typename T>
class RowProduct final : public DeviceProduct {
 public:
  RowProduct(const RowShapes& shapes, int multiprocessors) : shapes_(shapes) {
    if (shapes.by_columns) {
      const std::int64_t groups = (shapes.columns + columns_a_warp - 1) / columns_a_warp;
      spread_ = groups < 16 * multiprocessors ? column_warps : 1;
      const std::int64_t a_block = column_warps / spread_;
      blocks_ = (groups + a_block - 1) / a_block;
    } else {
      const std::int64_t packs = shapes.columns / full_pack<T>;
      spread_ = most_lanes;
      while (spread_ > 4 && packs < std::int64_t{2} * spread_ * multiprocessors) spread_ /= 2;
      blocks_ = (packs + spread_ - 1) / spread_;
    }
  }

  void run(const ProductData& data, std::byte*, cudaStream_t stream) override {
    if (shapes_.rows == 1)
      run_rows<1>(data, stream);
    else
      run_rows<most_rows>(data, stream);
  }

 private:
  template <int Rows>
  void run_rows(const ProductData& data, cudaStream_t stream) const {
    const RowProductData<T> typed{
        reinterpret_cast<const T*>(data.a), reinterpret_cast<const T*>(data.b),
        reinterpret_cast<const T*>(data.c), reinterpret_cast<T*>(data.out)};
    const dim3 grid(static_cast<unsigned>(blocks_));
    if (shapes_.by_columns)
      launch(stream, {grid, dim3(column_warps * warp_lanes)}, multiply_columns<T, Rows>, typed,
             shapes_, spread_);
    else
      launch(stream, {.grid = grid, .block = dim3(row_threads), .most_threads = row_threads},
             multiply_rows<T, Rows>, typed, shapes_, spread_);
  }

  RowShapes shapes_;
  int spread_ = 1;  ///< warps that share a column, or lanes that share a row
  std::int64_t blocks_ = 0;
};

/// A product that is narrow is better split along its sum, which these kernels do within a block.
constexpr std::int64_t least_columns = 64;

/// Whether the layout allows what the kernels do, and which of them.
std::optional<RowShapes> row_shapes(const Product& product, std::int64_t pack) {
  if (product.rows > most_rows || !product.batches.empty() || product.columns < least_columns)
    return std::nullopt;
  if (product.alpha != 1 || (product.c && (!product.has_bias() || product.beta != 1)))
    return std::nullopt;
  RowShapes shapes;
  shapes.rows = static_cast<int>(product.rows);
  shapes.depth = product.depth;
  shapes.columns = product.columns;
  shapes.a_stride = product.rows == 1 ? 0 : product.a.row_stride;
  shapes.out_stride = product.rows == 1 ? 0 : product.out.row_stride;
  shapes.by_columns = product.b.row_stride == 1;
  shapes.weight_stride = shapes.by_columns ? product.b.column_stride : product.b.row_stride;
  shapes.activation = product.activation;
  const bool lies_together = product.a.column_stride == 1 && product.out.column_stride == 1 &&
                             (shapes.by_columns || product.b.column_stride == 1);
  const std::int64_t vector = shapes.by_columns ? product.depth : product.columns;
  const bool is_aligned =
      vector % pack == 0 && shapes.weight_stride % pack == 0 && shapes.a_stride % pack == 0;
  return lies_together && is_aligned ? std::optional(shapes) : std::nullopt;
}

}  // namespace

std::unique_ptr<DeviceProduct> make_row_product(const ProductRequest& request) {
  std::unique_ptr<DeviceProduct> made;
  if (request.b_alignment % 16 != 0) return made;
  visit_type(request.type, Types<float, Float16, BFloat16>{}, [&]<typename T>(T) {
    if (const auto shapes = row_shapes(request.product, full_pack<T>))
      made = std::make_unique<RowProduct<T>>(*shapes, request.device.multiprocessors());
  });
  return made;
}

}  // namespace autopar::runtime::cuda
