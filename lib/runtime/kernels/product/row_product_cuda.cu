// Few rows times a matrix of weights. All that counts is that the weights stream through: each is
// read once, 16 bytes at a time, by many threads at once. A thread has a ring of copies to shared
// memory under way, 128 bytes, and begins a new one as soon as it has used the oldest, so that
// memory always has some 100 KB to bring to each multiprocessor; 4 TB/s take 22 KB for each 700 ns.
// Sums are in float, and put together in a fixed order.

#include <algorithm>

#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/tensor_core.h"
#include "runtime/kernels/cuda/vector_access.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/product/product_finish_cuda.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int most_rows = 4;

template <typename T>
struct RowProductData {
  explicit RowProductData(const ProductData& data)
      : a(reinterpret_cast<const T*>(data.a)),
        weights(reinterpret_cast<const T*>(data.b)),
        bias(reinterpret_cast<const T*>(data.c)),
        out(reinterpret_cast<T*>(data.out)) {}

  const T* a;
  const T* weights;
  const T* bias;  ///< may be null
  T* out;
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

/// A thread's copies that are under way, each a batch of `Packs` times 16 bytes, in turns in its
/// places of shared memory. No other thread sees them, so that no barrier is needed.
template <int Threads, int Stages, int Packs>
class Ring {
 public:
  static constexpr std::size_t bytes = std::size_t{Threads} * Stages * Packs * sizeof(uint4);

  __device__ explicit Ring(std::byte* shared)
      : mine_(reinterpret_cast<uint4*>(shared) + threadIdx.x) {}

  /// Begins to copy a pack of the batch in `stage`; zeros where not `is_there`.
  __device__ void ask(int stage, int pack, bool is_there, const void* from) {
    copy_async(mine_ + (stage * Packs + pack) * Threads, from, is_there);
  }
  /// Waits for the oldest of `Stages` batches, which ask() and end_copy_batch() have begun.
  __device__ void wait() { wait_for_copies<Stages - 1>(); }
  __device__ uint4 pack(int stage, int pack) const {
    return mine_[(stage * Packs + pack) * Threads];
  }

 private:
  uint4* mine_;
};

// ---- Weights whose columns lie together --------------------------------------------------------

constexpr int column_warps = 4;
constexpr int columns_a_warp = 2;
constexpr int column_stages = 4;
using ColumnRing = Ring<column_warps * warp_lanes, column_stages, columns_a_warp>;
/// Blocks that a multiprocessor runs at once.
template <int Rows>
constexpr int column_blocks = Rows == most_rows ? 6 : 8;

/// Warps take two columns, one warp both or some of a block's warps a part of the sums each.
template <typename T, int Rows>
__global__ void __launch_bounds__(column_warps* warp_lanes, column_blocks<Rows>)
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
  const std::int64_t step = warps_a_column * warp_lanes * width;
  ColumnRing ring(dynamic_shared());
  const auto ask = [&](int stage, std::int64_t k) {
    const bool is_there = k < shapes.depth;
#pragma unroll
    for (int c = 0; c < columns_a_warp; ++c)
      ring.ask(stage, c, is_there, weights[c] + (is_there ? k : 0));
    end_copy_batch();
  };
  std::int64_t k = (part * warp_lanes + lane) * width;
#pragma unroll
  for (int s = 0; s < column_stages; ++s) ask(s, k + s * step);
  float sums[Rows][columns_a_warp] = {};
  while (k < shapes.depth) {
#pragma unroll
    for (int s = 0; s < column_stages; ++s) {
      ring.wait();
      float of_columns[columns_a_warp][width];
#pragma unroll
      for (int c = 0; c < columns_a_warp; ++c) widen<T>(ring.pack(s, c), of_columns[c]);
      ask(s, k + column_stages * step);
      if (k < shapes.depth) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          float x[width];
          const T* row = data.a + row_at(r, shapes) * shapes.a_stride;
          widen<T>(*reinterpret_cast<const uint4*>(row + k), x);
#pragma unroll
          for (int c = 0; c < columns_a_warp; ++c)
#pragma unroll
            for (int i = 0; i < width; ++i) sums[r][c] += x[i] * of_columns[c][i];
        }
      }
      k += step;
    }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < columns_a_warp; ++c) {
      const float sum = reduce_warp(sums[r][c], Plus{});
      if (lane == 0) parts[warp][r * columns_a_warp + c] = sum;
    }
  __syncthreads();
  if (part != 0 || lane >= Rows * columns_a_warp) return;
  float sum = 0;
  for (int p = 0; p < warps_a_column; ++p) sum += parts[warp + p][lane];
  store(data, shapes, lane / columns_a_warp, first + lane % columns_a_warp, sum);
}

// ---- Weights whose rows lie together -----------------------------------------------------------

constexpr int row_threads = 256;
constexpr int row_warps = row_threads / warp_lanes;
/// Neighbouring threads that read 128 bytes of one row; a block's others read other rows.
constexpr int tile_lanes = 8;
constexpr int tile_rows = row_threads / tile_lanes;
template <typename T>
constexpr int tile_columns = tile_lanes* full_pack<T>;
constexpr int row_stages = 8;
using RowRing = Ring<row_threads, row_stages, 1>;
/// Rows of weights that a block has under way.
constexpr int ring_rows = row_stages * tile_rows;
/// Floats of the rows that a block has in shared memory at once.
constexpr int most_staged = 2048;
/// Blocks that a multiprocessor runs at once.
template <int Rows>
constexpr int row_blocks = Rows == most_rows ? 3 : 4;

/// How the sums of a product are split over the blocks of a tile of columns. Where there are
/// several, the one that is done last puts their sums together.
struct SumSplit {
  int parts = 1;
  std::int64_t part_depth = 0;
  int staged_depth = 0;          ///< a multiple of ring_rows
  float* sums = nullptr;         ///< [tiles, parts, rows, columns of a tile]
  unsigned* arrivals = nullptr;  ///< [tiles], zeros before and after
};

/// Puts a part of the rows into shared memory, [staged_depth, Rows] from `first` on, zeros behind
/// the end.
template <typename T, int Rows>
__device__ __forceinline__ void stage_rows(float* staged, const RowProductData<T>& data,
                                           const RowShapes& shapes, int staged_depth,
                                           std::int64_t first, std::int64_t end) {
  for (int i = static_cast<int>(threadIdx.x); i < staged_depth; i += row_threads)
#pragma unroll
    for (int r = 0; r < Rows; ++r)
      staged[i * Rows + r] =
          first + i < end ? widened(data.a[row_at(r, shapes) * shapes.a_stride + first + i]) : 0.0F;
}

/// The sums of the block's threads put together, over `shared` memory: thread `t` has row `t /
/// tile_columns`, column `t % tile_columns` of the tile; those beyond have nothing.
template <typename T, int Rows>
__device__ __forceinline__ float reduce_tile(const float (&sums)[Rows][full_pack<T>],
                                             std::byte* shared) {
  constexpr int width = full_pack<T>;
  constexpr int values = Rows * tile_columns<T>;
  static_assert(values <= row_threads && row_warps * values * sizeof(float) <= RowRing::bytes);
  auto* const of_warps = reinterpret_cast<float(*)[values]>(shared);
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int i = 0; i < width; ++i) {
      float sum = sums[r][i];
#pragma unroll
      for (int distance = tile_lanes; distance < warp_lanes; distance *= 2)
        sum += __shfl_xor_sync(all_lanes, sum, distance);
      if (thread % warp_lanes < tile_lanes)
        of_warps[thread / warp_lanes][r * tile_columns<T> + thread % tile_lanes * width + i] = sum;
    }
  __syncthreads();
  if (thread >= values) return 0;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < row_warps; ++w) sum += of_warps[w][thread];
  return sum;
}

/// Whether this is the last of a tile's blocks to come here, which then sees what all have written.
__device__ __forceinline__ bool is_last_of_tile(const SumSplit& split) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  const unsigned others = static_cast<unsigned>(split.parts) - 1;
  if (threadIdx.x == 0) is_last = atomicInc(split.arrivals + blockIdx.x, others) == others;
  __syncthreads();
  __threadfence();
  return is_last;
}

template <typename T, int Rows>
__global__ void __launch_bounds__(row_threads, row_blocks<Rows>)
    multiply_rows(RowProductData<T> data, RowShapes shapes, SumSplit split) {
  constexpr int width = full_pack<T>;
  constexpr int values = Rows * tile_columns<T>;
  auto* const staged = reinterpret_cast<float*>(dynamic_shared() + RowRing::bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * tile_columns<T>;
  const std::int64_t column = first_column + thread % tile_lanes * width;
  const int row = thread / tile_lanes;
  const std::int64_t first = blockIdx.y * split.part_depth;
  const std::int64_t left = shapes.depth - first;
  const int depth = static_cast<int>(left < split.part_depth ? left : split.part_depth);
  const int depth_of_thread = column < shapes.columns ? depth - row : 0;
  const T* next = data.weights + (first + row) * shapes.weight_stride + column;
  const std::int64_t row_step = tile_rows * shapes.weight_stride;

  RowRing ring(dynamic_shared());
  const auto ask = [&](int stage, int k) {
    const bool is_there = k < depth_of_thread;
    ring.ask(stage, 0, is_there, is_there ? next : data.weights);
    end_copy_batch();
    next += row_step;
  };
#pragma unroll
  for (int s = 0; s < row_stages; ++s) ask(s, s * tile_rows);
  float sums[Rows][width] = {};
  for (int start = 0; start < depth; start += split.staged_depth) {
    if (start > 0) __syncthreads();
    stage_rows<T, Rows>(staged, data, shapes, split.staged_depth, first + start, first + depth);
    __syncthreads();
    const int end = start + split.staged_depth < depth ? start + split.staged_depth : depth;
    const float* x = staged + row * Rows;
    for (int k = start; k < end; k += ring_rows) {
#pragma unroll
      for (int s = 0; s < row_stages; ++s) {
        ring.wait();
        float weights[width];
        widen<T>(ring.pack(s, 0), weights);
        ask(s, k + ring_rows + s * tile_rows);
        const auto of_rows = load_pack<float, Rows>(x + s * tile_rows * Rows);
#pragma unroll
        for (int i = 0; i < width; ++i)
#pragma unroll
          for (int r = 0; r < Rows; ++r) sums[r][i] += of_rows.values[r] * weights[i];
      }
      x += ring_rows * Rows;
    }
  }
  wait_for_copies<0>();
  __syncthreads();  // the ring's memory is free

  float sum = reduce_tile<T, Rows>(sums, dynamic_shared());
  if (split.parts > 1) {
    float* const of_tile = split.sums + std::int64_t{blockIdx.x} * split.parts * values + thread;
    if (thread < values) of_tile[blockIdx.y * values] = sum;
    if (!is_last_of_tile(split)) return;
    sum = 0;
    if (thread < values) {
#pragma unroll 8
      for (int part = 0; part < split.parts; ++part) sum += __ldcg(of_tile + part * values);
    }
  }
  if (thread < values)
    store(data, shapes, thread / tile_columns<T>, first_column + thread % tile_columns<T>, sum);
}

// ---- Products ----------------------------------------------------------------------------------

std::int64_t divided_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

template <typename T, int Rows>
class ColumnsProduct final : public DeviceProduct {
 public:
  ColumnsProduct(const RowShapes& shapes, const CudaDevice& device) : shapes_(shapes) {
    const std::int64_t groups = divided_up(shapes.columns, columns_a_warp);
    const int warps_at_once = device.multiprocessors() * column_blocks<Rows> * column_warps;
    while (spread_ < column_warps && groups * spread_ * 2 <= warps_at_once) spread_ *= 2;
    blocks_ = divided_up(groups * spread_, column_warps);
  }

  void run(const ProductData& data, std::byte*, cudaStream_t stream) override {
    launch(stream,
           {.grid = dim3(static_cast<unsigned>(blocks_)),
            .block = dim3(column_warps * warp_lanes),
            .shared_bytes = ColumnRing::bytes},
           multiply_columns<T, Rows>, RowProductData<T>(data), shapes_, spread_);
  }

 private:
  RowShapes shapes_;
  int spread_ = 1;  ///< warps that share a column
  std::int64_t blocks_ = 0;
};

template <typename T, int Rows>
class RowsProduct final : public DeviceProduct {
 public:
  RowsProduct(const RowShapes& shapes, CudaDevice& device)
      : shapes_(shapes), tiles_(divided_up(shapes.columns, tile_columns<T>)) {
    // As many blocks as the GPU runs at once, but none whose threads would not fill their ring.
    const std::int64_t at_once = std::int64_t{device.multiprocessors()} * row_blocks<Rows>;
    const std::int64_t parts =
        std::clamp<std::int64_t>(at_once / tiles_, 1, divided_up(shapes.depth, ring_rows));
    split_.part_depth = divided_up(divided_up(shapes.depth, parts), tile_rows) * tile_rows;
    split_.parts = static_cast<int>(divided_up(shapes.depth, split_.part_depth));
    split_.staged_depth = static_cast<int>(std::min<std::int64_t>(
        most_staged / Rows, divided_up(split_.part_depth, ring_rows) * ring_rows));
    if (split_.parts > 1) split_.arrivals = device.arrivals(tiles_);
  }

  std::int64_t scratch_bytes() const override {
    if (split_.parts == 1) return 0;
    return tiles_ * split_.parts * Rows * tile_columns<T> * std::int64_t{sizeof(float)};
  }

  void run(const ProductData& data, std::byte* scratch, cudaStream_t stream) override {
    SumSplit split = split_;
    split.sums = reinterpret_cast<float*>(scratch);
    const dim3 grid(static_cast<unsigned>(tiles_), static_cast<unsigned>(split_.parts));
    const std::size_t staged = static_cast<std::size_t>(split_.staged_depth) * Rows * sizeof(float);
    launch(stream,
           {.grid = grid, .block = dim3(row_threads), .shared_bytes = RowRing::bytes + staged},
           multiply_rows<T, Rows>, RowProductData<T>(data), shapes_, split);
  }

 private:
  RowShapes shapes_;
  std::int64_t tiles_;
  SumSplit split_;
};

template <typename T, int Rows>
std::unique_ptr<DeviceProduct> make(const RowShapes& shapes, CudaDevice& device) {
  if (shapes.by_columns) return std::make_unique<ColumnsProduct<T, Rows>>(shapes, device);
  return std::make_unique<RowsProduct<T, Rows>>(shapes, device);
}

/// By kernels for 1, 2 or 4 rows; three are computed as four.
template <typename T>
std::unique_ptr<DeviceProduct> make(const RowShapes& shapes, CudaDevice& device) {
  if (shapes.rows == 1) return make<T, 1>(shapes, device);
  if (shapes.rows == 2) return make<T, 2>(shapes, device);
  return make<T, most_rows>(shapes, device);
}

/// Fewer columns are left to cuBLASLt.
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
      made = make<T>(*shapes, request.device);
  });
  return made;
}

}  // namespace autopar::runtime::cuda
