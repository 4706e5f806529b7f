#include "runtime/kernels/cpu/panel_tile.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace autopar::runtime::cpu {
namespace {

/// All loops but those over what a window sees are unrolled, so that sums stay in registers.
template <int lanes, int vectors, int windows>
struct Tile {
  using Lanes = typename Vector<lanes>::Floats;
  using Sums = Lanes[windows][vectors];

  /// Floats from a vector's weights to the next one's.
  [[gnu::always_inline]] static inline std::int64_t weight_step(const TileOperands& of) {
    return lanes == panel_columns ? of.panel_floats : lanes;
  }

  /// Loads rows that are `columns` floats apart.
  [[gnu::always_inline]] static inline void load_rows(Sums& sums, const float* from,
                                                      std::int64_t columns) {
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i, from += columns)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) load(sums[i][v], from + v * lanes);
  }

  [[gnu::always_inline]] static inline void add_rows(Sums& sums, const float* from,
                                                     std::int64_t columns) {
    Sums addends;
    load_rows(addends, from, columns);
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[i][v] += addends[i][v];
  }

  [[gnu::always_inline]] static inline void relu(Sums& sums) {
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[i][v] = sums[i][v] < 0 ? Lanes{} : sums[i][v];
  }

  [[gnu::always_inline]] static inline void store_rows(const Sums& sums, float* to,
                                                       std::int64_t columns) {
#pragma GCC unroll 8
    for (int i = 0; i < windows; ++i, to += columns)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) std::memcpy(to + v * lanes, &sums[i][v], sizeof(Lanes));
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
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) load(row[v], weights + v * weight_step(of));
#pragma GCC unroll 8
        for (int i = 0; i < windows; ++i)
#pragma GCC unroll 4
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

template <int lanes, int vectors, int... windows>
std::array<ComputeTiles, sizeof...(windows)> functions_of(
    SimdLevel level, std::integer_sequence<int, windows...> /*less 1*/) {
  return {simd_function<Tile<lanes, vectors, windows + 1>, const TileOperands&>(level)...};
}

/// The function for so many vectors and windows.
template <int lanes, int... vectors>
ComputeTiles function_of(SimdLevel level, std::integer_sequence<int, vectors...> /*less 1*/,
                         std::int64_t of_vectors, std::int64_t of_windows) {
  using Windows = std::make_integer_sequence<int, tile_windows>;
  static const std::array functions = {functions_of<lanes, vectors + 1>(level, Windows())...};
  return functions[static_cast<std::size_t>(of_vectors - 1)]
                  [static_cast<std::size_t>(of_windows - 1)];
}

}  // namespace

ComputeTiles tile_function(std::int64_t vectors, std::int64_t windows) {
  constexpr int most_vectors = panel_columns / tile_lanes;
  return function_of<tile_lanes>(SimdLevel::avx2, std::make_integer_sequence<int, most_vectors>(),
                                 vectors, windows);
}

std::int64_t PanelsAtOnce::most() { return simd_level() == SimdLevel::avx512 ? most_panels : 1; }

PanelsAtOnce::PanelsAtOnce(std::int64_t panels, std::int64_t columns_left)
    : count(std::clamp<std::int64_t>(std::min(panels, columns_left / panel_columns), 1, most())),
      columns(std::min(columns_left, count * panel_columns)) {}

ComputeTiles PanelsAtOnce::function(std::int64_t windows) const {
  const bool are_whole = columns == count * panel_columns;
  if (!are_whole || simd_level() != SimdLevel::avx512)
    return tile_function((columns + tile_lanes - 1) / tile_lanes, windows);
  return function_of<panel_columns>(SimdLevel::avx512,
                                    std::make_integer_sequence<int, most_panels>(), count, windows);
}

void PanelsAtOnce::compute_edge_tile(TileOperands of, std::int64_t windows) const {
  std::array<float, tile_windows * panel_columns> sums;
  std::array<float, tile_windows* panel_columns> addends = {};
  const auto copy_rows = [&](const float* from, std::int64_t from_columns, float* to,
                             std::int64_t to_columns) {
    for (std::int64_t i = 0; i < windows; ++i)
      std::copy_n(from + i * from_columns, columns, to + i * to_columns);
  };
  if (of.bias == nullptr) {
    sums.fill(0);
    copy_rows(of.out, of.columns, sums.data(), panel_columns);
  }
  if (of.addend != nullptr) {
    copy_rows(of.addend, of.columns, addends.data(), panel_columns);
    of.addend = addends.data();
  }
  float* const out = std::exchange(of.out, sums.data());
  const std::int64_t out_columns = std::exchange(of.columns, panel_columns);
  function(windows)(of);
  copy_rows(sums.data(), panel_columns, out, out_columns);
}

}  // namespace autopar::runtime::cpu
