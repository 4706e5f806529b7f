#include "runtime/kernels/convolution/conv_tile.h"

#include <array>
#include <cstring>
#include <utility>

namespace autopar::runtime::cpu {
namespace {

using Lanes = Vector<tile_lanes>::Floats;

/// All loops but those over what a window sees are unrolled, so that sums stay in registers.
template <int vectors, int windows>
struct Tile {
  using Sums = Lanes[windows][vectors];

  /// Loads rows that are `columns` floats apart.
  [[gnu::always_inline]] static inline void load_rows(Sums& sums, const float* from,
                                                      std::int64_t columns) {
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i, from += columns)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) load(sums[i][v], from + v * tile_lanes);
  }

  [[gnu::always_inline]] static inline void add_rows(Sums& sums, const float* from,
                                                     std::int64_t columns) {
    Sums addends;
    load_rows(addends, from, columns);
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[i][v] += addends[i][v];
  }

  [[gnu::always_inline]] static inline void relu(Sums& sums) {
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sums[i][v] = sums[i][v] < 0 ? Lanes{} : sums[i][v];
  }

  [[gnu::always_inline]] static inline void store_rows(const Sums& sums, float* to,
                                                       std::int64_t columns) {
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i, to += columns)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v)
        std::memcpy(to + v * tile_lanes, &sums[i][v], sizeof(Lanes));
  }

  template <bool writes>
  [[gnu::always_inline]] static inline void prefetch_rows(const float* from, std::int64_t columns) {
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i, from += columns) __builtin_prefetch(from, writes ? 1 : 0);
  }

  /// Returns what is read ahead next.
  [[gnu::always_inline]] static inline const char* multiply(const TileOperands& of,
                                                            const float* const* of_tile,
                                                            const char* ahead, Sums& sums) {
    constexpr int second_level = 2;
    const std::int64_t step = of.ahead.step;
    for (const Stretch& stretch : of.stretches) {
      const float* seen[windows];
#pragma GCC unroll 8
      for (int i = 0; i < windows; ++i) seen[i] = of_tile[i] + of.channel + stretch.offset;
      const float* weights = of.panel + stretch.depth * panel_columns;
      for (std::int64_t k = 0; k < stretch.length; ++k, weights += panel_columns, ahead += step) {
        __builtin_prefetch(ahead, 0, second_level);
        Lanes row[vectors];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) load(row[v], weights + v * tile_lanes);
#pragma GCC unroll 8
        for (int i = 0; i < windows; ++i)
#pragma GCC unroll 2
          for (int v = 0; v < vectors; ++v) sums[i][v] += seen[i][k] * row[v];
      }
    }
    return ahead;
  }

  [[gnu::always_inline]] static inline void run(const TileOperands& of) {
    const char* ahead = of.ahead.begin;
    const float* addend = of.addend;
    float* out = of.out;
    const std::int64_t columns = of.columns;
    for (std::int64_t tile = 0; tile < of.tiles; ++tile, out += windows * columns) {
      prefetch_rows<true>(out, columns);
      if (addend != nullptr) prefetch_rows<false>(addend, columns);
      Sums sums;
      if (of.bias != nullptr)
        load_rows(sums, of.bias, 0);
      else
        load_rows(sums, out, columns);
      ahead = multiply(of, of.windows + tile * windows, ahead, sums);
      if (addend != nullptr) {
        add_rows(sums, addend, columns);
        addend += windows * columns;
      }
      if (of.has_relu) relu(sums);
      store_rows(sums, out, columns);
    }
  }
};

template <int vectors, int... windows>
std::array<ComputeTiles, sizeof...(windows)> functions_of(
    std::integer_sequence<int, windows...> /*less 1*/) {
  return {simd_function<Tile<vectors, windows + 1>, const TileOperands&>(SimdLevel::avx2)...};
}

}  // namespace

ComputeTiles tile_function(std::int64_t vectors, std::int64_t windows) {
  using Windows = std::make_integer_sequence<int, tile_windows>;
  static const std::array functions = {functions_of<1>(Windows()), functions_of<2>(Windows())};
  return functions[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(windows - 1)];
}

}  // namespace autopar::runtime::cpu
