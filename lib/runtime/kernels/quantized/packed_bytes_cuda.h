#pragma once

#include <cstdint>

#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/fast_division.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/quantized/column_turns.h"
#include "runtime/kernels/quantized/integers.h"

/// What lies around cuBLASLt's integer products, which know no zero points and no unsigned bytes:
/// rows and columns are packed as signed ones with their sums, and the sums of (a - a0)(b - b0) are
/// those of a b, less b0 times the row's sum of a and a0 times the column's sum of b, plus a0 b0
/// for each product. All is exact modulo 2^32, as the sums are.
namespace autopar::runtime::cuda {

/// Packed vectors and rows of products have a multiple of so many elements, for cuBLASLt's fast
/// kernels.
inline constexpr std::int64_t pack_elements = 16;
inline std::int64_t padded(std::int64_t elements) {
  return (elements + pack_elements - 1) / pack_elements * pack_elements;
}

/// What a byte has more than the signed one that it is packed as.
template <typename T>
constexpr int origin = std::is_unsigned_v<T> ? 128 : 0;

// ---- Operands ----------------------------------------------------------------------------------

inline constexpr int pack_threads = 256;
inline constexpr int tile_vectors = 32;
inline constexpr int word_bytes = 4;
inline constexpr int tile_depth = warp_lanes * word_bytes;
/// What a block packs; the last word of a row keeps threads out of each other's banks.
using PackTile = std::int8_t[tile_vectors][tile_depth + word_bytes];

/// Where vectors are packed, one after another, zeros behind their end.
struct PackTarget {
  std::uint32_t* packed;  ///< [count, depth / word_bytes]
  std::int32_t* sums;     ///< [count], of the packed bytes; zeros before
  std::int64_t count;     ///< multiples of pack_elements
  std::int64_t depth;
};

/// All threads of a block call it when they have filled the tile.
__device__ inline void store_tile(const PackTile& tile, const PackTarget& to,
                                  std::int64_t first_vector, std::int64_t first_depth) {
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const int warp = static_cast<int>(threadIdx.x) / warp_lanes;
  for (int v = warp; v < tile_vectors; v += pack_threads / warp_lanes) {
    const std::int64_t vector = first_vector + v;
    if (vector >= to.count) return;
    const std::int8_t* const bytes = tile[v] + lane * word_bytes;
    const std::int32_t sum = reduce_warp(bytes[0] + bytes[1] + bytes[2] + bytes[3], Plus{});
    if (lane == 0) atomicAdd(to.sums + vector, sum);
    const std::int64_t k = first_depth + lane * word_bytes;
    if (k < to.depth)
      to.packed[(vector * to.depth + k) / word_bytes] =
          *reinterpret_cast<const std::uint32_t*>(bytes);
  }
}

/// Rows of a matrix, or its columns.
template <typename T>
struct Vectors {
  const T* data;
  std::int64_t count;
  std::int64_t depth;
  std::int64_t vector_stride;
  std::int64_t depth_stride;

  /// Neighbours in memory are read together.
  __device__ bool takes_depth_first() const { return depth_stride == 1; }
  __device__ std::int8_t packed_at(std::int64_t vector, std::int64_t k) const {
    return static_cast<std::int8_t>(data[vector * vector_stride + k * depth_stride] - origin<T>);
  }
};

template <typename Operand>
__global__ void pack_vectors(const __grid_constant__ Operand of, PackTarget to) {
  __shared__ __align__(word_bytes) PackTile tile;
  const std::int64_t first_vector = std::int64_t{blockIdx.x} * tile_vectors;
  const std::int64_t first_depth = std::int64_t{blockIdx.y} * tile_depth;
  for (int i = static_cast<int>(threadIdx.x); i < tile_vectors * tile_depth; i += pack_threads) {
    const int vector = of.takes_depth_first() ? i / tile_depth : i % tile_vectors;
    const int k = of.takes_depth_first() ? i % tile_depth : i / tile_vectors;
    const bool is_there = first_vector + vector < of.count && first_depth + k < of.depth;
    tile[vector][k] = is_there ? of.packed_at(first_vector + vector, first_depth + k) : 0;
  }
  store_tile(tile, to, first_vector, first_depth);
}

template <typename Operand>
void pack(const Operand& operand, const PackTarget& to, cudaStream_t stream) {
  const auto bytes = static_cast<std::size_t>(to.count) * sizeof *to.sums;
  check(cudaMemsetAsync(to.sums, 0, bytes, stream), "the sums of bytes");
  const dim3 grid(static_cast<unsigned>((to.count + tile_vectors - 1) / tile_vectors),
                  static_cast<unsigned>((to.depth + tile_depth - 1) / tile_depth));
  launch(stream, {grid, dim3(pack_threads)}, pack_vectors<Operand>, operand, to);
}

// ---- Results -----------------------------------------------------------------------------------

/// One zero point for all rows or columns, or one for each.
template <typename T>
struct ZeroPoints {
  const T* data = nullptr;  ///< null for `otherwise`
  std::int64_t stride = 0;
  int otherwise = 0;

  __device__ std::uint32_t packed_at(std::int64_t i) const {
    const int zero = data == nullptr ? otherwise : data[i * stride];
    return static_cast<std::uint32_t>(zero - origin<T>);
  }
};

/// What becomes of the products of some columns. A column is a place of an image, or one of a
/// matrix, which is the only image.
template <typename A, typename B, typename Out>
struct ByteResults {
  const std::int32_t* products = nullptr;  ///< [rows, padded_columns], of packed bytes
  std::int64_t padded_columns = 0;
  const std::int32_t* row_sums = nullptr;
  const std::int32_t* column_sums = nullptr;  ///< from `first_column` on, as products
  ZeroPoints<A> row_zeros = {};
  ZeroPoints<B> column_zeros = {};
  const float* scales = nullptr;  ///< beside bias read where Out is float
  std::int64_t scale_row_stride = 0;
  std::int64_t scale_column_stride = 0;
  const float* bias = nullptr;  ///< by row; may be null
  Out* out = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t image_stride = 0;
  std::uint32_t depth = 0;
  std::uint32_t elements = 0;
  std::uint32_t first_column = 0;
  FastDivisor columns = {};  ///< of these products
  FastDivisor places = {};   ///< columns of an image
};

template <typename A, typename B, typename Out>
__global__ void finish_products(const __grid_constant__ ByteResults<A, B, Out> of) {
  const auto thread = static_cast<std::uint32_t>(global_thread());
  if (thread >= of.elements) return;
  std::uint32_t row = thread;
  const std::uint32_t own_column = of.columns.divide(row);
  const std::uint32_t column = of.first_column + own_column;
  const std::uint32_t row_zero = of.row_zeros.packed_at(row);
  const std::uint32_t column_zero = of.column_zeros.packed_at(column);
  const auto sum = static_cast<std::int32_t>(
      static_cast<std::uint32_t>(of.products[row * of.padded_columns + own_column]) -
      row_zero * static_cast<std::uint32_t>(of.column_sums[own_column]) -
      column_zero * static_cast<std::uint32_t>(of.row_sums[row]) +
      of.depth * row_zero * column_zero);
  std::uint32_t image = column;
  const std::uint32_t place = of.places.divide(image);
  Out& out = of.out[image * of.image_stride + row * of.row_stride + place];
  if constexpr (std::is_same_v<Out, float>) {
    const float scaled = static_cast<float>(sum) *
                         of.scales[row * of.scale_row_stride + column * of.scale_column_stride];
    out = of.bias == nullptr ? scaled : scaled + of.bias[row];
  } else {
    out = sum;
  }
}

// ---- Products ----------------------------------------------------------------------------------

/// Sums of so many bytes are in scratch memory at once.
inline constexpr std::int64_t most_product_bytes = std::int64_t{64} << 20;

inline ColumnTurns turns_of(std::int64_t rows, std::int64_t columns) {
  return {columns, most_product_bytes / 4 / padded(rows), pack_elements};
}

/// Elements in 31 bits, with a turn's padding, and tiles along the depth in a grid's second
/// dimension.
inline bool can_be_counted(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  constexpr std::int64_t most_depth = std::int64_t{65535} * tile_depth;
  return rows < most / (4 * pack_elements) && columns < most && depth <= most_depth;
}

/// Between the numbers of an input that has one for all, or one for each.
inline std::int64_t stride_of(const KernelRequest& request, std::size_t input) {
  return is_given(request.inputs, input) && request.inputs[input].elements() > 1 ? 1 : 0;
}

inline bool is_one_or(const KernelRequest& request, std::size_t input, std::int64_t count) {
  if (!is_given(request.inputs, input)) return true;
  const std::int64_t elements = request.inputs[input].elements();
  return elements == 1 || elements == count;
}

/// Rows of a times columns of b, packed in scratch memory, and their products.
class PackedProducts {
 public:
  PackedProducts(const KernelRequest& request, std::int64_t rows, std::int64_t columns,
                 std::int64_t depth);

  /// Whether the library has such products; else nothing of this is to be called.
  bool are_served() const { return library_ != nullptr; }
  std::int64_t scratch_bytes() const { return library_at_ + library_->scratch_bytes(); }
  PackTarget rows(std::byte* scratch) const { return target(scratch, 0, rows_); }
  PackTarget columns(std::byte* scratch) const { return target(scratch, columns_at_, columns_); }
  std::int64_t padded_columns() const { return columns_; }
  /// When both are packed. Returns the products, [rows, padded_columns()].
  const std::int32_t* multiply(std::byte* scratch, cudaStream_t stream) const;

 private:
  /// Vectors, and behind them their sums.
  PackTarget target(std::byte* scratch, std::int64_t offset, std::int64_t count) const;

  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t depth_;
  std::int64_t columns_at_;  ///< in scratch memory, in bytes
  std::int64_t products_at_;
  std::int64_t library_at_;
  std::unique_ptr<DeviceProduct> library_;
};

}  // namespace autopar::runtime::cuda
