#pragma once

#include <cstdint>
#include <span>

#include "runtime/kernels/cpu/lanes.h"

/// The innermost step of products and convolutions with AVX2 or AVX-512: some windows' products
/// with panels of weights. A window is what a place of a convolution sees, or a row of a matrix.
namespace autopar::runtime::cpu {

/// Sums of so many windows and columns fill the registers, with room for weights and an element.
inline constexpr int tile_windows = 6;
inline constexpr int tile_lanes = 8;
inline constexpr int panel_columns = 2 * tile_lanes;
/// With AVX-512 a vector has a panel's columns, and registers have room for sums of so many.
inline constexpr int most_panels = 4;

/// Floats that lie one behind the other in what a window sees, and whose weights do so in a panel.
struct Stretch {
  std::int64_t offset;  ///< from the window's first float
  std::int64_t depth;   ///< how many floats of the window have weights before these
  std::int64_t length;
};

/// Memory that is read soon: `step` bytes of it for each float that a tile's windows see.
struct Ahead {
  const char* begin;
  std::int64_t step;
};

/// What tiles of equal numbers of windows are computed from, one behind the other. Rows of `out`
/// and `addend` are `columns` floats apart.
struct TileOperands {
  std::int64_t tiles;
  const float* const* windows;  ///< the first float of each
  std::int64_t channel;         ///< the first that is seen; those before are of other groups
  std::span<const Stretch> stretches;
  const float* panel;         ///< [depth, panel_columns]
  std::int64_t panel_floats;  ///< from a panel to the next, where several are read
  const float* bias;  ///< [panels, panel_columns]; null where `out` has the sum of other stretches
  const float* addend;  ///< null where nothing is added
  float* out;
  std::int64_t columns;
  bool has_relu;  ///< NaN stays NaN
  Ahead ahead;
};

using ComputeTiles = SimdFunction<const TileOperands&>;

/// Computes the first `vectors` (1 or 2) times tile_lanes columns of tiles of 1 to tile_windows
/// windows each. The machine must have AVX2.
ComputeTiles tile_function(std::int64_t vectors, std::int64_t windows);

/// Rows, tiles or panels from `begin` up to `end`.
struct Range {
  std::int64_t begin;
  std::int64_t end;

  std::int64_t count() const { return end - begin; }
  /// One of `parts` nearly equal ones.
  Range part(std::int64_t number, std::int64_t parts) const {
    return {begin + count() * number / parts, begin + count() * (number + 1) / parts};
  }
};

/// Panels that tiles read at once: as many whole ones as this machine takes, or one that is not
/// whole.
struct PanelsAtOnce {
  std::int64_t count;
  std::int64_t columns;

  /// Takes the first of so many panels, which have so many columns.
  PanelsAtOnce(std::int64_t panels, std::int64_t columns_left);
  /// The largest count on this machine.
  static std::int64_t most();

  /// Whether the last vector has columns that are not there.
  bool are_at_edge() const { return columns % tile_lanes != 0; }

  /// Computes their columns, and others up to whole vectors.
  ComputeTiles function(std::int64_t windows) const;
  /// Computes the columns of one tile, and writes no others.
  void compute_edge_tile(TileOperands of, std::int64_t windows) const;
};

}  // namespace autopar::runtime::cpu
