// GatheredMatMul. A block takes some columns of one matrix, looks for the vectors that the indices
// send through it, and multiplies them tile by tile. So a matrix is read where it lies, once for
// each tile of vectors, and the host need not know which ones are wanted.

#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/cuda/targets.h"
#include "runtime/kernels/product/kernels.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int tile_vectors = 16;
constexpr int tile_depth = 16;
constexpr int columns_a_thread = 4;
constexpr int tile_columns = 16 * columns_a_thread;
constexpr int threads = 16 * tile_vectors;
/// Vectors that are looked at before those that were found are multiplied.
constexpr int chunk = 2048;

template <typename T>
struct GatheredProduct {
  const T* table = nullptr;    ///< [matrices, columns, depth] or [matrices, depth, columns]
  const T* vectors = nullptr;  ///< [count, depth]
  T* out = nullptr;            ///< [count, columns]
  Indices indices;             ///< [count]
  FaultSlot fault;
  std::int64_t count = 0;
  std::int64_t matrices = 0;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  std::int64_t depth_stride = 0;
  std::int64_t column_stride = 0;
  std::int64_t column_tiles = 0;
};

/// What a block has at hand of a matrix and of the vectors that it multiplies.
template <typename T>
struct Tiles {
  Widened<T> weights[tile_depth][tile_columns + 1];
  Widened<T> vectors[tile_vectors][tile_depth + 1];
};

/// Threads that follow one another read what lies together.
template <typename T>
__device__ void load_weights(const GatheredProduct<T>& of, const T* matrix, std::int64_t first_k,
                             std::int64_t first_column, Tiles<T>& tiles) {
  const bool is_by_depth = of.depth_stride == 1;
  for (int i = static_cast<int>(threadIdx.x); i < tile_depth * tile_columns; i += threads) {
    const int k = is_by_depth ? i % tile_depth : i / tile_columns;
    const int column = is_by_depth ? i / tile_depth : i % tile_columns;
    const bool is_there = first_k + k < of.depth && first_column + column < of.columns;
    tiles.weights[k][column] = is_there
                                   ? widened(matrix[(first_k + k) * of.depth_stride +
                                                    (first_column + column) * of.column_stride])
                                   : Widened<T>{};
  }
}

/// Multiplies as many of the `count` vectors that `chosen` begins with as a tile has; a thread has
/// one vector's product with some columns.
template <typename T>
__device__ void multiply_tile(const GatheredProduct<T>& of, const T* matrix,
                              std::int64_t first_column, const std::int64_t* chosen, int count,
                              Tiles<T>& tiles) {
  const int x = static_cast<int>(threadIdx.x) % 16;
  const int y = static_cast<int>(threadIdx.x) / 16;
  Widened<T> sums[columns_a_thread] = {};
  for (std::int64_t first_k = 0; first_k < of.depth; first_k += tile_depth) {
    load_weights(of, matrix, first_k, first_column, tiles);
    const bool is_there = y < count && first_k + x < of.depth;
    tiles.vectors[y][x] =
        is_there ? widened(of.vectors[chosen[y] * of.depth + first_k + x]) : Widened<T>{};
    __syncthreads();
    for (int k = 0; k < tile_depth; ++k)
      for (int c = 0; c < columns_a_thread; ++c)
        sums[c] += tiles.vectors[y][k] * tiles.weights[k][x + 16 * c];
    __syncthreads();
  }
  if (y >= count) return;
  for (int c = 0; c < columns_a_thread; ++c) {
    const std::int64_t column = first_column + x + 16 * c;
    if (column < of.columns) of.out[chosen[y] * of.columns + column] = narrowed<T>(sums[c]);
  }
}

/// In which order vectors are found is of no account: each has a sum of its own.
template <typename T>
__global__ void __launch_bounds__(threads)
    multiply_gathered(const __grid_constant__ GatheredProduct<T> of) {
  __shared__ Tiles<T> tiles;
  __shared__ std::int64_t chosen[chunk];
  __shared__ int found;
  const std::int64_t number = blockIdx.x / of.column_tiles;
  const std::int64_t first_column = blockIdx.x % of.column_tiles * tile_columns;
  const T* matrix = of.table + number * of.depth * of.columns;
  for (std::int64_t first = 0; first < of.count; first += chunk) {
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    const std::int64_t end = first + chunk < of.count ? first + chunk : of.count;
    for (std::int64_t vector = first + threadIdx.x; vector < end; vector += threads)
      if (checked_index(of.indices.at(vector), of.matrices, of.fault) == number)
        chosen[atomicAdd(&found, 1)] = vector;
    __syncthreads();
    const int in_chunk = found;
    for (int begin = 0; begin < in_chunk; begin += tile_vectors)
      multiply_tile(of, matrix, first_column, chosen + begin,
                    in_chunk - begin < tile_vectors ? in_chunk - begin : tile_vectors, tiles);
    __syncthreads();
  }
}

}  // namespace

std::unique_ptr<Kernel> make_gathered_matmul(const KernelRequest& request) {
  // The input that is the table.
  const auto table_input = static_cast<std::size_t>(request.node.int_attribute("table", 0));
  const bool is_left = table_input == 0;
  const Shape& table = request.inputs.at(table_input).shape;
  return kernel_for_type(request, request.outputs.at(0).type, AllFloats{}, [&]<typename T>(T) {
    GatheredProduct<T> product;
    product.fault = device_of(request).faults().slot(request.node.name);
    product.count = request.outputs[0].shape[0];
    product.matrices = table[0];
    product.depth = table[is_left ? 2 : 1];
    product.columns = table[is_left ? 1 : 2];
    product.depth_stride = is_left ? 1 : product.columns;
    product.column_stride = is_left ? product.depth : 1;
    product.column_tiles = (product.columns + tile_columns - 1) / tile_columns;
    return make_kernel([=](const KernelIo& io) {
      GatheredProduct<T> of = product;
      of.table = io.inputs[table_input].as<const T>();
      of.vectors = io.inputs[1 - table_input].as<const T>();
      of.out = io.outputs[0].as<T>();
      of.indices = indices_of(io.inputs[2]);
      const auto blocks = static_cast<unsigned>(of.matrices * of.column_tiles);
      launch(stream_of(io), {dim3(blocks), dim3(threads)}, multiply_gathered<T>, of);
    });
  });
}

}  // namespace autopar::runtime::cuda
