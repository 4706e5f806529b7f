// MatMulNBits of many rows.

#include <algorithm>

#include "graph/arena.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cuda/fast_division.h"
#include "runtime/kernels/cuda/launch.h"
#include "runtime/kernels/product/device_product_cuda.h"
#include "runtime/kernels/quantized/column_turns.h"
#include "runtime/kernels/quantized/packed_products_cuda.h"

namespace autopar::runtime::cuda {
namespace {

/// With fewer rows it costs more to write the numbers and to read them again than is gained.
constexpr std::int64_t least_rows = 33;
/// Numbers of so many bytes stay in an H100's second-level cache, of 50 MB, until they are
/// multiplied.
constexpr std::int64_t most_bytes = std::int64_t{32} << 20;

/// Columns of weights as numbers, [columns, depth], a byte of weights a thread.
template <typename T>
struct Unpacking {
  PackedOperands<T> operands;
  PackedProduct of;
  FastDivisor row_bytes;
  FastDivisor block_bytes;
  std::uint32_t bytes;  ///< of all columns
};

template <typename T>
__global__ void unpack_columns(const __grid_constant__ Unpacking<T> unpacking,
                               std::int64_t first_column, T* out) {
  const PackedProduct& of = unpacking.of;
  const PackedOperands<T>& operands = unpacking.operands;
  const auto thread = static_cast<std::uint32_t>(global_thread());
  if (thread >= unpacking.bytes) return;
  std::uint32_t column_from_first = thread;
  const std::uint32_t byte = unpacking.row_bytes.divide(column_from_first);
  const std::int64_t column = first_column + column_from_first;
  const std::int64_t block = unpacking.block_bytes.quotient(byte);
  const float scale = widened(operands.scales[column * of.blocks + block]);
  const float zero = zero_point(operands, of, column, block);
  const unsigned numbers = operands.b[first_column * of.row_bytes() + thread];
  const int numbers_a_byte = 8 / of.bits;
  const std::int64_t k = std::int64_t{byte} * numbers_a_byte;
  T* const to = out + column_from_first * of.depth + k;
  for (int i = 0; i < numbers_a_byte && k + i < of.depth; ++i) {
    const unsigned number = numbers >> (i * of.bits) & ((1U << of.bits) - 1);
    to[i] = narrowed<T>(scale * (static_cast<float>(number) - zero));
  }
}

}  // namespace

std::unique_ptr<Kernel> make_unpacked_product(const KernelRequest& request,
                                              const PackedProduct& of) {
  std::unique_ptr<Kernel> made;
  if (of.rows < least_rows) return made;
  using Served = Joined<Types<float>, Halves>;
  visit_type(request.inputs[0].type, Served{}, [&]<typename T>(T) {
    constexpr auto element_bytes = static_cast<std::int64_t>(sizeof(T));
    const ColumnTurns turns(of.columns, most_bytes / element_bytes / of.depth, 64 / element_bytes);
    if (turns.columns * of.row_bytes() >= FastDivisor::limit) return;
    Product of_turn = product_of_vectors(of.rows, of.depth, turns.columns, of.columns);
    if (of.has_bias) of_turn.c = {{}, 0, 1};
    auto product = make_device_product({.device = device_of(request),
                                        .node = request.node.name,
                                        .type = request.inputs[0].type,
                                        .product = of_turn});
    const std::int64_t unpacked_bytes = graph::aligned(turns.columns * of.depth * element_bytes);
    const std::int64_t scratch_bytes = unpacked_bytes + product->scratch_bytes();
    const FastDivisor row_bytes(of.row_bytes());
    const FastDivisor block_bytes(of.block_bytes());
    auto run = [=, product = std::move(product)](const KernelIo& io) {
      const PackedOperands<T> operands(io, of);
      auto* const unpacked = reinterpret_cast<T*>(io.scratch);
      const auto bytes = static_cast<std::uint32_t>(turns.columns * of.row_bytes());
      for (std::int64_t turn = 0; turn < turns.count; ++turn) {
        const std::int64_t first = turns.first(turn);
        launch(stream_of(io), a_thread_each(bytes), unpack_columns<T>,
               Unpacking<T>{operands, of, row_bytes, block_bytes, bytes}, first, unpacked);
        product->run({.a = io.inputs[0].data,
                      .b = io.scratch,
                      .c = of.has_bias ? io.inputs[5].data + first * element_bytes : nullptr,
                      .out = io.outputs[0].data + first * element_bytes},
                     io.scratch + unpacked_bytes, stream_of(io));
      }
    };
    made = make_kernel(std::move(run), scratch_bytes);
  });
  return made;
}

}  // namespace autopar::runtime::cuda
