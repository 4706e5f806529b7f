// MatMulNBits: a warp a column, whose packed weights its lanes read once for some rows.

#include "runtime/kernels/quantized/matmul_n_bits.h"

#include <limits>

#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/block_reduce.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int rows_at_once = 8;
constexpr unsigned warps = 8;

template <typename T>
struct Arguments {
  const T* a;                        ///< [rows, depth]
  const std::uint8_t* b;             ///< [columns, row_bytes()]
  const T* scales;                   ///< [columns, blocks]
  const std::uint8_t* packed_zeros;  ///< [columns, zero_bytes()]; null where there are none
  const T* zeros;                    ///< [columns, blocks]; null where there are none
  const T* bias;                     ///< [columns]; may be null
  T* out;                            ///< [rows, columns]
  PackedProduct of;
};

template <typename T>
__global__ void multiply_packed(const __grid_constant__ Arguments<T> arguments) {
  const PackedProduct& of = arguments.of;
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_lanes;
  if (column >= of.columns) return;
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * rows_at_once;
  const std::int64_t left = of.rows - first_row;
  const int rows = static_cast<int>(left < rows_at_once ? left : rows_at_once);
  const std::uint8_t* const weights = arguments.b + column * of.row_bytes();
  const int numbers = 8 / of.bits;
  float sums[rows_at_once] = {};
  for (std::int64_t byte = lane; byte * numbers < of.blocks * of.block; byte += warp_lanes) {
    const std::int64_t k = byte * numbers;
    const std::int64_t block = k / of.block;
    const std::int64_t at = column * of.blocks + block;
    const float scale = widened(arguments.scales[at]);
    const float zero = arguments.zeros != nullptr ? widened(arguments.zeros[at])
                       : arguments.packed_zeros != nullptr
                           ? static_cast<float>(packed_number(
                                 arguments.packed_zeros + column * of.zero_bytes(), block, of.bits))
                           : static_cast<float>(1 << (of.bits - 1));
    for (int part = 0; part < numbers && k + part < of.depth; ++part) {
      const float weight =
          scale *
          (static_cast<float>((weights[byte] >> (part * of.bits)) & ((1 << of.bits) - 1)) - zero);
      for (int row = 0; row < rows; ++row)
        sums[row] += weight * widened(arguments.a[(first_row + row) * of.depth + k + part]);
    }
  }
  const float bias = arguments.bias == nullptr ? 0.0F : widened(arguments.bias[column]);
  for (int row = 0; row < rows; ++row) {
    const float sum = reduce_warp(sums[row], Plus{});
    if (lane == 0) arguments.out[(first_row + row) * of.columns + column] = narrowed<T>(sum + bias);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_matmul_n_bits(const KernelRequest& request) {
  using Served = Joined<Types<float>, Halves>;
  return kernel_for_type(request, request.inputs.at(0).type, Served{}, [&]<typename T>(T) {
    const PackedProduct of = packed_product(request);
    const std::int64_t row_tiles = (of.rows + rows_at_once - 1) / rows_at_once;
    if (row_tiles > std::numeric_limits<std::uint16_t>::max())
      fail("node '{}': MatMulNBits of {} rows has no CUDA kernel", request.node.name, of.rows);
    const dim3 grid(static_cast<unsigned>((of.columns + warps - 1) / warps),
                    static_cast<unsigned>(row_tiles));
    return make_kernel([=](const KernelIo& io) {
      if (of.rows == 0) return;
      using Zeros = PackedProduct::Zeros;
      const Arguments<T> arguments{
          io.inputs[0].as<const T>(),
          io.inputs[1].as<const std::uint8_t>(),
          io.inputs[2].as<const T>(),
          of.zeros == Zeros::packed ? io.inputs[3].as<const std::uint8_t>() : nullptr,
          of.zeros == Zeros::numbers ? io.inputs[3].as<const T>() : nullptr,
          optional_data<const T>(io.inputs, 5),
          io.outputs[0].as<T>(),
          of};
      launch(stream_of(io), {grid, dim3(warps * warp_lanes)}, multiply_packed<T>, arguments);
    });
  });
}

}  // namespace autopar::runtime::cuda
