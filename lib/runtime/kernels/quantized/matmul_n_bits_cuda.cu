// MatMulNBits. Forms that no faster kernel serves have a warp a column, whose packed weights its
// lanes read once for some rows.

#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/fast_division.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/quantized/kernels.h"
#include "runtime/kernels/quantized/packed_products_cuda.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int rows_at_once = 8;
constexpr unsigned warps = 8;

/// Lanes take a Piece of a column's weights at once, which all lie in one block.
template <typename T, typename Piece>
__global__ void multiply_packed(const __grid_constant__ PackedOperands<T> operands,
                                const __grid_constant__ PackedProduct of,
                                FastDivisor block_pieces) {
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_lanes;
  if (column >= of.columns) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * rows_at_once;
  const std::int64_t rows = of.rows - first_row;
  const T* const a = operands.a + first_row * of.depth;
  const auto* const weights = reinterpret_cast<const Piece*>(operands.b + column * of.row_bytes());
  const int numbers = 8 * static_cast<int>(sizeof(Piece)) / of.bits;
  float sums[rows_at_once] = {};
  for (int piece = lane; piece < of.row_bytes() / std::int64_t{sizeof(Piece)};
       piece += warp_lanes) {
    const std::int64_t block = block_pieces.quotient(static_cast<std::uint32_t>(piece));
    const float scale = widened(operands.scales[column * of.blocks + block]);
    const float zero = zero_point(operands, of, column, block);
    const std::uint32_t packed = weights[piece];
    const std::int64_t k = std::int64_t{piece} * numbers;
    for (int i = 0; i < numbers && k + i < of.depth; ++i) {
      const std::uint32_t number = packed >> (i * of.bits) & ((1U << of.bits) - 1);
      const float weight = scale * (static_cast<float>(number) - zero);
#pragma unroll
      for (int row = 0; row < rows_at_once; ++row)
        if (row < rows) sums[row] += weight * widened(a[row * of.depth + k + i]);
    }
  }
  const float bias = operands.bias == nullptr ? 0.0F : widened(operands.bias[column]);
#pragma unroll
  for (int row = 0; row < rows_at_once; ++row) {
    const float sum = reduce_warp(sums[row], Plus{});
    if (lane == 0 && row < rows)
      operands.out[(first_row + row) * of.columns + column] = narrowed<T>(sum + bias);
  }
}

template <typename T, typename Piece>
std::unique_ptr<Kernel> make(const PackedProduct& of) {
  const dim3 grid(static_cast<unsigned>((of.columns + warps - 1) / warps),
                  static_cast<unsigned>((of.rows + rows_at_once - 1) / rows_at_once));
  const FastDivisor block_pieces(of.block_bytes() / std::int64_t{sizeof(Piece)});
  return make_kernel([=](const KernelIo& io) {
    launch(stream_of(io), {grid, dim3(warps * warp_lanes)}, multiply_packed<T, Piece>,
           PackedOperands<T>(io, of), of, block_pieces);
  });
}

}  // namespace

std::unique_ptr<Kernel> make_matmul_n_bits(const KernelRequest& request) {
  const PackedProduct of = packed_product(request);
  if (of.rows == 0) return std::make_unique<NoWork>();
  if (auto rows = make_packed_rows(request, of)) return rows;
  if (auto unpacked = make_unpacked_product(request, of)) return unpacked;
  using Served = Joined<Types<float>, Halves>;
  return kernel_for_type(request, request.inputs[0].type, Served{}, [&]<typename T>(T) {
    return of.block_bytes() % 4 == 0 ? make<T, std::uint32_t>(of) : make<T, std::uint8_t>(of);
  });
}

}  // namespace autopar::runtime::cuda
