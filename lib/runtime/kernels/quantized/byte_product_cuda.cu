// The sums of (a - a0)(b - b0) are those of a b, less b0 times the row's sum of a and a0 times the
// column's sum of b, plus a0 b0 for each product. All is exact modulo 2^32, as the sums are.

#include "runtime/kernels/quantized/byte_product_cuda.h"

#include <utility>

#include "graph/arena.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/fast_division.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/quantized/column_turns.h"
#include "runtime/kernels/quantized/integers.h"

namespace autopar::runtime::cuda {
namespace {

/// Fewer are a decoder's step, which reads the weights where they lie.
constexpr std::int64_t least_rows = 32;
constexpr std::int64_t least_depth = 64;
/// Packed vectors and rows of sums are made of so many elements, for cuBLASLt's fast kernels.
constexpr std::int64_t pack_elements = 16;
/// Of sums, in scratch memory at once.
constexpr std::int64_t most_bytes = std::int64_t{64} << 20;

std::int64_t padded(std::int64_t elements) {
  return (elements + pack_elements - 1) / pack_elements * pack_elements;
}

// ---- Operands ----------------------------------------------------------------------------------

constexpr int pack_threads = 256;
constexpr int tile_vectors = 32;
constexpr int word_bytes = 4;
constexpr int tile_depth = warp_lanes * word_bytes;

/// Rows of a, or columns of b, to be packed: signed bytes, one vector after another.
template <typename T>
struct Vectors {
  const T* data;
  std::int64_t count;
  std::int64_t depth;
  std::int64_t vector_stride;
  std::int64_t depth_stride;
  std::int64_t padded_count;
  std::int64_t padded_depth;
  std::uint32_t* packed;  ///< [padded_count, padded_depth / word_bytes]; zeros where nothing is
  std::int32_t* sums;     ///< [padded_count], zeros before; of the packed bytes
};

/// What a byte has more than the signed one that it is packed as.
template <typename T>
constexpr int origin = std::is_unsigned_v<T> ? 128 : 0;

template <typename T>
__global__ void pack_vectors(const __grid_constant__ Vectors<T> of) {
  __shared__ __align__(word_bytes) std::int8_t tile[tile_vectors][tile_depth + word_bytes];
  const std::int64_t first_vector = std::int64_t{blockIdx.x} * tile_vectors;
  const std::int64_t first_depth = std::int64_t{blockIdx.y} * tile_depth;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < tile_vectors * tile_depth; i += pack_threads) {
    // Neighbours in memory are read together.
    const int vector = of.depth_stride == 1 ? i / tile_depth : i % tile_vectors;
    const int k = of.depth_stride == 1 ? i % tile_depth : i / tile_vectors;
    const bool is_there = first_vector + vector < of.count && first_depth + k < of.depth;
    const std::int64_t at =
        (first_vector + vector) * of.vector_stride + (first_depth + k) * of.depth_stride;
    tile[vector][k] = is_there ? static_cast<std::int8_t>(of.data[at] - origin<T>) : 0;
  }
  __syncthreads();
  const int lane = thread % warp_lanes;
  for (int v = thread / warp_lanes; v < tile_vectors; v += pack_threads / warp_lanes) {
    const std::int64_t vector = first_vector + v;
    if (vector >= of.padded_count) return;
    const std::int8_t* const bytes = tile[v] + lane * word_bytes;
    const std::int32_t sum = reduce_warp(bytes[0] + bytes[1] + bytes[2] + bytes[3], Plus{});
    if (lane == 0) atomicAdd(of.sums + vector, sum);
    const std::int64_t k = first_depth + lane * word_bytes;
    if (k < of.padded_depth)
      of.packed[(vector * of.padded_depth + k) / word_bytes] =
          *reinterpret_cast<const std::uint32_t*>(bytes);
  }
}

template <typename T>
void pack(const Vectors<T>& vectors, cudaStream_t stream) {
  check(
      cudaMemsetAsync(vectors.sums, 0, static_cast<std::size_t>(vectors.padded_count) * 4, stream),
      "the sums of bytes");
  const dim3 grid(static_cast<unsigned>((vectors.padded_count + tile_vectors - 1) / tile_vectors),
                  static_cast<unsigned>((vectors.padded_depth + tile_depth - 1) / tile_depth));
  launch(stream, {grid, dim3(pack_threads)}, pack_vectors<T>, vectors);
}

// ---- Results -----------------------------------------------------------------------------------

/// One zero point for all rows or columns, or one for each.
template <typename T>
struct ZeroPoints {
  const T* data;  ///< null for 0
  std::int64_t stride;

  __device__ std::uint32_t packed_at(std::int64_t i) const {
    return static_cast<std::uint32_t>(zero_point_at(data, i * stride) - origin<T>);
  }
};

template <typename A, typename B, typename Out>
struct Results {
  const std::int32_t* products;  ///< [rows, padded_columns], of packed bytes
  const std::int32_t* row_sums;
  const std::int32_t* column_sums;
  ZeroPoints<A> row_zeros;
  ZeroPoints<B> column_zeros;
  const float* scales;  ///< read where Out is float
  std::int64_t scale_stride;
  Out* out;
  std::int64_t out_stride;  ///< from a row to the next
  std::int64_t padded_columns;
  std::uint32_t depth;
  std::uint32_t elements;
  FastDivisor columns;
};

template <typename A, typename B, typename Out>
__global__ void finish_products(const __grid_constant__ Results<A, B, Out> of) {
  const auto thread = static_cast<std::uint32_t>(global_thread());
  if (thread >= of.elements) return;
  std::uint32_t row = thread;
  const std::uint32_t column = of.columns.divide(row);
  const std::uint32_t row_zero = of.row_zeros.packed_at(row);
  const std::uint32_t column_zero = of.column_zeros.packed_at(column);
  const auto sum = static_cast<std::int32_t>(
      static_cast<std::uint32_t>(of.products[row * of.padded_columns + column]) -
      row_zero * static_cast<std::uint32_t>(of.column_sums[column]) -
      column_zero * static_cast<std::uint32_t>(of.row_sums[row]) +
      of.depth * row_zero * column_zero);
  Out& out = of.out[row * of.out_stride + column];
  if constexpr (std::is_same_v<Out, float>)
    out = static_cast<float>(sum) * of.scales[column * of.scale_stride];
  else
    out = sum;
}

// ---- The kernel --------------------------------------------------------------------------------

/// The inputs beside the operands.
struct Places {
  std::size_t a_zero;
  std::size_t b_zero;
  std::size_t scale;
};

/// Where things lie in scratch memory, in bytes.
struct Scratch {
  std::int64_t a = 0;
  std::int64_t a_sums = 0;
  std::int64_t b = 0;
  std::int64_t b_sums = 0;
  std::int64_t products = 0;
  std::int64_t library = 0;

  Scratch(std::int64_t padded_rows, std::int64_t padded_columns, std::int64_t padded_depth) {
    std::int64_t end = 0;
    const auto take = [&](std::int64_t bytes) {
      return std::exchange(end, end + graph::aligned(bytes));
    };
    a = take(padded_rows * padded_depth);
    a_sums = take(padded_rows * 4);
    b = take(padded_columns * padded_depth);
    b_sums = take(padded_columns * 4);
    products = take(padded_rows * padded_columns * 4);
    library = end;
  }
};

Product packed_product_of(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  Product product;
  product.rows = rows;
  product.depth = depth;
  product.columns = columns;
  product.a = {{}, depth, 1};
  product.b = {{}, 1, depth};
  product.out = {{}, columns, 1};
  return product;
}

template <typename A, typename B, typename Out>
std::unique_ptr<Kernel> make(const KernelRequest& request, const Product& product,
                             const Places& places) {
  const ColumnTurns turns(product.columns, most_bytes / 4 / product.rows, pack_elements);
  const std::int64_t depth = padded(product.depth);
  const std::int64_t rows = padded(product.rows);
  const std::int64_t columns = padded(turns.columns);
  const Scratch at(rows, columns, depth);
  auto library = make_cublas_product({.device = device_of(request),
                                      .node = request.node.name,
                                      .type = DataType::int8,
                                      .product = packed_product_of(rows, columns, depth)});
  const std::int64_t scratch_bytes = at.library + library->scratch_bytes();
  const auto stride_of = [&](std::size_t input) {
    return is_given(request.inputs, input) && request.inputs[input].elements() > 1 ? 1 : 0;
  };
  const std::int64_t row_zero_stride = stride_of(places.a_zero);
  const std::int64_t column_zero_stride = stride_of(places.b_zero);
  const std::int64_t scale_stride = std::is_same_v<Out, float> ? stride_of(places.scale) : 0;
  auto run = [=, library = std::move(library)](const KernelIo& io) {
    const cudaStream_t stream = stream_of(io);
    const auto sums_at = [&](std::int64_t offset) {
      return reinterpret_cast<std::int32_t*>(io.scratch + offset);
    };
    pack(Vectors<A>{io.inputs[0].as<const A>(), product.rows, product.depth, product.a.row_stride,
                    product.a.column_stride, rows, depth,
                    reinterpret_cast<std::uint32_t*>(io.scratch + at.a), sums_at(at.a_sums)},
         stream);
    const B* const b_zeros = optional_data<const B>(io.inputs, places.b_zero);
    for (std::int64_t turn = 0; turn < turns.count; ++turn) {
      const std::int64_t first = turns.first(turn);
      pack(Vectors<B>{io.inputs[1].as<const B>() + first * product.b.column_stride, turns.columns,
                      product.depth, product.b.column_stride, product.b.row_stride, columns, depth,
                      reinterpret_cast<std::uint32_t*>(io.scratch + at.b), sums_at(at.b_sums)},
           stream);
      library->run(
          {.a = io.scratch + at.a, .b = io.scratch + at.b, .out = io.scratch + at.products},
          io.scratch + at.library, stream);
      const auto elements = static_cast<std::uint32_t>(product.rows * turns.columns);
      const Results<A, B, Out> results{
          .products = sums_at(at.products),
          .row_sums = sums_at(at.a_sums),
          .column_sums = sums_at(at.b_sums),
          .row_zeros = {optional_data<const A>(io.inputs, places.a_zero), row_zero_stride},
          .column_zeros = {b_zeros == nullptr ? nullptr : b_zeros + first * column_zero_stride,
                           column_zero_stride},
          .scales = std::is_same_v<Out, float>
                        ? io.inputs[places.scale].as<const float>() + first * scale_stride
                        : nullptr,
          .scale_stride = scale_stride,
          .out = io.outputs[0].as<Out>() + first,
          .out_stride = product.out.row_stride,
          .padded_columns = columns,
          .depth = static_cast<std::uint32_t>(product.depth),
          .elements = elements,
          .columns = FastDivisor(turns.columns)};
      launch(stream, a_thread_each(elements), finish_products<A, B, Out>, results);
    }
  };
  return make_kernel(std::move(run), scratch_bytes);
}

bool serves(const KernelRequest& request, const Product& product, const Places& places) {
  const auto is_one_or = [&](std::size_t input, std::int64_t count) {
    if (!is_given(request.inputs, input)) return true;
    const std::int64_t elements = request.inputs[input].elements();
    return elements == 1 || elements == count;
  };
  const std::int64_t most_elements = std::int64_t{1} << 30;
  return product.batches.empty() && product.rows >= least_rows && product.depth >= least_depth &&
         product.out.column_stride == 1 && product.rows < most_elements / pack_elements / 2 &&
         is_one_or(places.a_zero, product.rows) && is_one_or(places.b_zero, product.columns);
}

}  // namespace

std::unique_ptr<Kernel> make_byte_product(const KernelRequest& request) {
  const bool has_scale = request.outputs.at(0).type == DataType::float32;
  const Places places = has_scale ? Places{.a_zero = 3, .b_zero = 4, .scale = 2}
                                  : Places{.a_zero = 2, .b_zero = 3, .scale = 0};
  const Product product = byte_product(request);
  if (request.outputs[0].elements() == 0 || !serves(request, product, places)) return nullptr;
  return kernel_for_bytes(request, [&]<typename A, typename B>(A, B) {
    return has_scale ? make<A, B, float>(request, product, places)
                     : make<A, B, std::int32_t>(request, product, places);
  });
}

}  // namespace autopar::runtime::cuda
