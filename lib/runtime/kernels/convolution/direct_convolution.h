#pragma once

#include <algorithm>
#include <vector>

#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/cpu/panel_tile.h"

/// A convolution of images whose channels are last, without a matrix of windows: in an image with
/// its padding written out, what windows see lies in the same stretches behind the first number of
/// each ("The Indirect Convolution Algorithm", Dukhan, 2019, whose table of pointers this makes
/// unnecessary).
namespace autopar::runtime::cpu {

/// What windows see along a dimension, without outer taps under which all see padding alone.
struct SeenExtent {
  std::int64_t first_tap = 0;
  std::int64_t taps = 1;
  std::int64_t begin = 0;   ///< the place under the first window's first tap; negative: padding
  std::int64_t extent = 1;  ///< places from there to the last window's last tap
  bool is_inside = true;    ///< no padding

  SeenExtent(const Windows& of, int dimension);
};

/// Series are images with a height of 1.
struct DirectConvolution {
  static constexpr int height = 1;  ///< dimensions of Windows
  static constexpr int width = 2;

  /// What a tile's windows see, in chunks whose weights for a panel fit the first-level cache.
  struct Sight {
    std::vector<Stretch> stretches;
    std::vector<std::size_t> chunks;  ///< the first stretch of each, and the end of the last

    /// Numbers of a chunk.
    std::int64_t depth(std::size_t i) const {
      std::int64_t numbers = 0;
      for (const Stretch& stretch : chunk(i)) numbers += stretch.length;
      return numbers;
    }
    std::size_t count() const { return chunks.size() - 1; }
    std::span<const Stretch> chunk(std::size_t i) const {
      return std::span(stretches).subspan(chunks[i], chunks[i + 1] - chunks[i]);
    }
  };

  ConvolutionSizes sizes;
  SeenExtent rows;
  SeenExtent columns;
  bool has_channels_second;    ///< the image as it is given
  bool is_padded;              ///< windows slide over a copy of the image, with padding
  std::int64_t row_numbers;    ///< of what they slide over
  std::int64_t image_numbers;  ///< of the same
  std::int64_t depth;          ///< numbers that a window sees
  Sight sight;
  std::vector<Sight> sights;  ///< by tile; empty where most tiles see all

  /// The convolution has one or two spatial dimensions.
  DirectConvolution(const ConvolutionSizes& of, bool has_channels_second);

  std::int64_t group_channels() const { return sizes.channels / sizes.groups; }
  std::int64_t group_columns() const { return sizes.out_channels / sizes.groups; }
  /// Taps of a row whose channels lie one behind the other.
  std::int64_t taps_together() const {
    const bool are_neighbours = sizes.windows.dilations[width] == 1 || columns.taps == 1;
    return sizes.groups == 1 && are_neighbours ? columns.taps : 1;
  }
  std::int64_t group_panels() const;
  std::int64_t panels() const { return sizes.groups * group_panels(); }
  std::int64_t weight_numbers() const { return panels() * depth * panel_columns; }
  std::int64_t padded_numbers() const { return is_padded ? sizes.images * image_numbers : 0; }

  std::int64_t windows() const { return sizes.images * sizes.windows.out_places(); }
  std::int64_t tiles() const;
  /// Tiles have nearly equal numbers of windows, the first ones one more than the others.
  std::int64_t first_window(std::int64_t tile) const {
    return windows() / tiles() * tile + std::min(tile, windows() % tiles());
  }
  /// The first number that a window of the first group sees, from the first of what they slide
  /// over.
  std::int64_t window_offset(std::int64_t window) const;
  const Sight& sight_of(std::int64_t tile) const {
    return sights.empty() ? sight : sights[static_cast<std::size_t>(tile)];
  }
};

/// Each group is a channel, and makes one.
bool is_depthwise(const ConvolutionSizes& of);

/// By how many parts of tiles and of panels threads share the work.
struct Division {
  std::int64_t of_tiles = 1;
  std::int64_t of_panels = 1;

  std::int64_t parts() const { return of_tiles * of_panels; }
  Range tiles(const DirectConvolution& of, std::int64_t part) const {
    return Range{0, of.tiles()}.part(part / of_panels, of_tiles);
  }
  Range panels(const DirectConvolution& of, std::int64_t part) const {
    return Range{0, of.panels()}.part(part % of_panels, of_panels);
  }
};

/// Chooses how threads share a convolution. The largest part may be a little larger than it must
/// be; as many threads as possible have work; and among such divisions the one that reads the
/// fewest numbers is taken.
Division division_of(const DirectConvolution& of, std::int64_t threads);

/// Whether a copy of a Conv's images with their padding is small, or not much larger than they are.
/// Wide dilations of large images would take many times their memory.
bool has_small_copy(const graph::Node& node, std::span<const TensorView> inputs,
                    std::span<const std::int64_t> out_places);

/// Whether all that is given is float32, and the addend, which is the fourth input, has the shape
/// of the output.
bool are_fusable_floats(std::span<const TensorView> inputs, std::span<const TensorView> outputs);

/// Writes row `y` of all padded images' rows.
void write_padded_row(const DirectConvolution& of, const float* in, std::int64_t y, float* to);

/// Writes weights [out channel, channel of the group, taps] as panels [group, panel, depth,
/// column], zeros beyond a group's columns.
void write_panels(const DirectConvolution& of, const float* weights, float* panels);

}  // namespace autopar::runtime::cpu
