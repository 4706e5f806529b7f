// MatMulNBits of few rows, weights of 4 bits, half types. All that counts is that the weights
// stream through: each is read once, 16 bytes at a time, by copies to shared memory that a warp
// always has under way. Tensor cores multiply, since eight rows then take hardly more instructions
// than one; most instructions turn weights into halves, two at once, by the trick of Kim et al.,
// "Who Says Elephants Can't Run" (2022): below a half's exponent for 1024 (128 in bfloat16), four
// bits of the mantissa are a number to be added to it.

#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/fast_division.h"
#include "runtime/kernels/cuda/tensor_core.h"
#include "runtime/kernels/quantized/packed_products_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// A tensor core multiplies so many columns with so many rows.
constexpr int tile_columns = 16;
constexpr int tile_rows = 8;
constexpr int most_tiles = 4;

/// A stretch of weights of a column is 16 bytes, 8 numbers for each of four lanes; a chunk is what
/// a lane copies of a column at once, four stretches for four lanes.
constexpr int stretch_depth = 32;
constexpr int stretch_bytes = stretch_depth / 2;
constexpr int chunk_stretches = 4;

/// A block's warps share its columns, and take chunks in turn.
constexpr int warps = 8;
constexpr int stages = 4;
constexpr int stage_packs = tile_columns * chunk_stretches;
constexpr std::size_t ring_bytes = std::size_t{warps} * stages * stage_packs * stretch_bytes;
template <int Tiles>
constexpr int tile_values = Tiles* tile_rows* tile_columns;
template <int Tiles>
constexpr std::size_t shared_bytes = std::max(ring_bytes, std::size_t{warps} * tile_values<Tiles> *
                                                              sizeof(float));

/// Two halves to which a number below 16 can be added bit by bit.
template <typename T>
constexpr std::uint32_t pair_of_starts = std::is_same_v<T, Float16> ? 0x64006400U : 0x43004300U;

/// What all weights of a block of a column have in common.
struct BlockForm {
  float scale = 0;
  std::uint32_t zeros = 0;  ///< twice the start plus the zero point
};

template <typename T>
struct PackedRows {
  PackedOperands<T> operands;
  PackedProduct of;
  FastDivisor block_stretches;
  int stretches;  ///< of a column

  __device__ BlockForm form(std::int64_t column, int stretch) const {
    if (stretch >= stretches) return {};
    const std::int64_t block = block_stretches.quotient(static_cast<std::uint32_t>(stretch));
    const int zero =
        operands.packed_zeros == nullptr
            ? 8
            : packed_number(operands.packed_zeros + column * of.zero_bytes(), block, 4);
    return {widened(operands.scales[column * of.blocks + block]),
            pair_of_starts<T> | static_cast<std::uint32_t>(zero) * 0x00010001U};
  }
};

/// The numbers of a lane's 8 weights less their zero point, as pairs: the i-th with the (i + 4)-th.
template <typename T>
__device__ __forceinline__ void unpack(std::uint32_t word, std::uint32_t zeros,
                                       std::uint32_t (&pairs)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pairs[i] = subtract_pairs<T>((word >> (4 * i) & 0x000F000FU) | pair_of_starts<T>, zeros);
}

/// 8 neighbours in the order of unpack().
__device__ __forceinline__ void pair_up(const uint4& words, std::uint32_t (&pairs)[4]) {
  const auto lower = [](std::uint32_t x, std::uint32_t y) { return (x & 0xFFFFU) | y << 16; };
  const auto upper = [](std::uint32_t x, std::uint32_t y) { return x >> 16 | (y & 0xFFFF0000U); };
  pairs[0] = lower(words.x, words.z);
  pairs[1] = upper(words.x, words.z);
  pairs[2] = lower(words.y, words.w);
  pairs[3] = upper(words.y, words.w);
}

template <typename T, int Tiles>
__global__ void __launch_bounds__(warps* warp_lanes)
    multiply_packed_rows(const __grid_constant__ PackedRows<T> product) {
  const PackedProduct& of = product.of;
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const int warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const int row = lane / 4;  // of a tensor core's fragments
  const int quarter = lane % 4;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * tile_columns;
  // Columns beyond the last are computed as the last, and not stored.
  std::int64_t columns[2];
  const std::uint8_t* weights[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t column = first_column + 8 * i + row;
    columns[i] = column < of.columns ? column : of.columns - 1;
    weights[i] = product.operands.b + columns[i] * of.row_bytes();
  }
  // A row's four packs lie so that lanes that read a stretch of all rows meet in no bank.
  auto* const ring = reinterpret_cast<uint4*>(dynamic_shared()) + warp * stages * stage_packs;
  const auto place = [&](int i, int stretch) { return i * 32 + row * 4 + (stretch ^ (row / 2)); };
  const auto ask = [&](int stage, int chunk) {
    const int stretch = chunk * chunk_stretches + quarter;
    const bool is_there = stretch < product.stretches;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      copy_async(ring + stage * stage_packs + place(i, quarter),
                 weights[i] + (is_there ? stretch * stretch_bytes : 0), is_there);
    end_copy_batch();
  };
  const int chunks = (product.stretches + chunk_stretches - 1) / chunk_stretches;
#pragma unroll
  for (int s = 0; s < stages; ++s) ask(s, warp + s * warps);
  const auto form = [&](int i, int chunk) {
    return product.form(columns[i], chunk * chunk_stretches + quarter);
  };
  BlockForm next[2] = {form(0, warp), form(1, warp)};

  float sums[Tiles][4] = {};
  int stage = 0;
  for (int chunk = warp; chunk < chunks; chunk += warps) {
    const BlockForm forms[2] = {next[0], next[1]};
#pragma unroll
    for (int i = 0; i < 2; ++i) next[i] = form(i, chunk + warps);
    wait_for_copies<stages - 1>();
    __syncwarp();  // other lanes have copied
#pragma unroll
    for (int s = 0; s < chunk_stretches; ++s) {
      float scales[2];
      std::uint32_t pairs[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const auto* words =
            reinterpret_cast<const std::uint32_t*>(ring + stage * stage_packs + place(i, s));
        scales[i] = __shfl_sync(all_lanes, forms[i].scale, row * 4 + s);
        unpack<T>(words[quarter], __shfl_sync(all_lanes, forms[i].zeros, row * 4 + s), pairs[i]);
      }
      const std::int64_t k =
          (std::int64_t{chunk} * chunk_stretches + s) * stretch_depth + quarter * 8;
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        const int a_row = tile * tile_rows + row;
        uint4 words = {};
        if (a_row < of.rows && k < of.depth)
          words = *reinterpret_cast<const uint4*>(product.operands.a + a_row * of.depth + k);
        std::uint32_t x[4];
        pair_up(words, x);
        float c[4] = {};
        multiply_add<T>(c, {pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]}, {x[0], x[1]});
        multiply_add<T>(c, {pairs[0][2], pairs[1][2], pairs[0][3], pairs[1][3]}, {x[2], x[3]});
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[tile][i] += scales[i / 2] * c[i];
      }
    }
    __syncwarp();  // all lanes have read
    ask(stage, chunk + stages * warps);
    stage = (stage + 1) % stages;
  }
  wait_for_copies<0>();
  __syncthreads();  // the ring's memory is free

  auto* const of_warps = reinterpret_cast<float(*)[tile_values<Tiles>]>(dynamic_shared());
#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int a_row = tile * tile_rows + 2 * quarter + i % 2;
      of_warps[warp][a_row * tile_columns + i / 2 * 8 + row] = sums[tile][i];
    }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < tile_values<Tiles>; i += warps * warp_lanes) {
    const std::int64_t a_row = i / tile_columns;
    const std::int64_t column = first_column + i % tile_columns;
    if (a_row >= of.rows || column >= of.columns) continue;
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += of_warps[w][i];
    if (product.operands.bias != nullptr) sum += widened(product.operands.bias[column]);
    product.operands.out[a_row * of.columns + column] = narrowed<T>(sum);
  }
}

bool serves(const PackedProduct& of) {
  return of.bits == 4 && of.rows <= most_tiles * tile_rows && of.block % stretch_depth == 0 &&
         of.depth % 8 == 0 && of.zeros != PackedProduct::Zeros::numbers;
}

template <typename T, int Tiles>
std::unique_ptr<Kernel> make(const PackedProduct& of) {
  const auto stretches = static_cast<int>(of.blocks * of.block / stretch_depth);
  const FastDivisor block_stretches(of.block / stretch_depth);
  const LaunchShape shape{
      .grid = dim3(static_cast<unsigned>((of.columns + tile_columns - 1) / tile_columns)),
      .block = dim3(warps * warp_lanes),
      .shared_bytes = shared_bytes<Tiles>};
  return make_kernel([=](const KernelIo& io) {
    launch(stream_of(io), shape, multiply_packed_rows<T, Tiles>,
           PackedRows<T>{{io, of}, of, block_stretches, stretches});
  });
}

}  // namespace

std::unique_ptr<Kernel> make_packed_rows(const KernelRequest& request, const PackedProduct& of) {
  std::unique_ptr<Kernel> made;
  if (!serves(of)) return made;
  visit_type(request.inputs[0].type, Halves{}, [&]<typename T>(T) {
    made = of.rows <= tile_rows       ? make<T, 1>(of)
           : of.rows <= 2 * tile_rows ? make<T, 2>(of)
                                      : make<T, most_tiles>(of);
  });
  return made;
}

}  // namespace autopar::runtime::cuda
