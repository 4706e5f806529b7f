#include "runtime/kernels/product/row_by_blocks.h"

#include <algorithm>

#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/panel_tile.h"

namespace autopar::runtime::cpu {
namespace {

/// Computes the columns of blocks from `first` up to `last`. Each column has several sums, since an
/// addition waits for the one before it.
template <int lanes, int vectors, int chains>
struct MultiplyRow {
  using Lanes = typename Vector<lanes>::Floats;
  static constexpr std::int64_t block = std::int64_t{lanes} * vectors;

  [[gnu::always_inline]] static inline void add_products(Lanes (&sums)[vectors], float x,
                                                         const float* weights) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      Lanes of_row;
      load(of_row, weights + v * lanes);
      sums[v] += x * of_row;
    }
  }

  [[gnu::always_inline]] static inline void store(const RowByBlocks& of, std::int64_t column,
                                                  const Lanes (&sums)[vectors]) {
    float numbers[block];
    std::memcpy(numbers, sums, sizeof sums);
    const std::int64_t count = std::min(block, of.columns - column);
    for (std::int64_t i = 0; i < count; ++i)
      of.out[column + i] = numbers[i] + (of.bias != nullptr ? of.bias[column + i] : 0);
  }

  [[gnu::always_inline]] static inline void run(const RowByBlocks& of, std::int64_t first,
                                                std::int64_t last) {
    for (std::int64_t b = first; b < last; ++b) {
      const float* weights = of.blocks + b * block * of.padded_depth;
      Lanes sums[chains][vectors] = {};
      std::int64_t k = 0;
      for (; k + chains <= of.depth; k += chains)
#pragma GCC unroll 8
        for (int i = 0; i < chains; ++i, weights += block)
          add_products(sums[i], of.row[k + i], weights);
      for (; k < of.depth; ++k, weights += block) add_products(sums[0], of.row[k], weights);
#pragma GCC unroll 4
      for (int half = chains / 2; half > 0; half /= 2)
#pragma GCC unroll 4
        for (int i = 0; i < half; ++i)
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) sums[i][v] += sums[i + half][v];
      store(of, b * block, sums[0]);
    }
  }
};

using Multiply = SimdFunction<const RowByBlocks&, std::int64_t, std::int64_t>;

template <typename Body>
Multiply function_of(SimdLevel level) {
  return simd_function<Body, const RowByBlocks&, std::int64_t, std::int64_t>(level);
}

}  // namespace

void multiply_row(const RowByBlocks& of, std::int64_t block_columns, int threads) {
  constexpr std::int64_t least_work = 32 * 1024;  // products that are worth waking a thread for
  static const SimdLevel level = simd_level();
  static const Multiply narrow = function_of<MultiplyRow<8, 1, 8>>(level);
  static const Multiply panel = level == SimdLevel::avx512
                                    ? function_of<MultiplyRow<16, 1, 8>>(level)
                                    : function_of<MultiplyRow<8, 2, 4>>(level);
  static const Multiply wide = function_of<MultiplyRow<16, 4, 4>>(level);
  const Multiply run = block_columns == narrow_block    ? narrow
                       : block_columns == panel_columns ? panel
                                                        : wide;
  const std::int64_t count = (of.columns + block_columns - 1) / block_columns;
  const std::int64_t parts =
      std::clamp<std::int64_t>(of.columns * of.depth / least_work, 1, threads);
  for_in_threads(threads, parts, [&](std::int64_t part) {
    run(of, count * part / parts, count * (part + 1) / parts);
  });
}

}  // namespace autopar::runtime::cpu
