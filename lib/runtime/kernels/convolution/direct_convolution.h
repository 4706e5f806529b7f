#pragma once

#include <algorithm>
#include <vector>

#include "runtime/kernels/convolution/conv_tile.h"
#include "runtime/kernels/convolution/convolution.h"

/// A convolution of images whose channels are last, without a matrix of windows: in an image with
/// its padding written out, what windows see lies in the same stretches behind the first float of
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

    /// Floats of a chunk.
    std::int64_t depth(std::size_t i) const {
      std::int64_t floats = 0;
      for (const Stretch& stretch : chunk(i)) floats += stretch.length;
      return floats;
    }
    std::size_t count() const { return chunks.size() - 1; }
    std::span<const Stretch> chunk(std::size_t i) const {
      return std::span(stretches).subspan(chunks[i], chunks[i + 1] - chunks[i]);
    }
  };

  ConvolutionSizes sizes;
  SeenExtent rows;
  SeenExtent columns;
  bool has_channels_second;   ///< the image as it is given
  bool is_padded;             ///< windows slide over a copy of the image, with padding
  std::int64_t row_floats;    ///< of what they slide over
  std::int64_t image_floats;  ///< of the same
  std::int64_t depth;         ///< floats that a window sees
  Sight sight;
  std::vector<Sight> sights;  ///< by tile; empty where most tiles see all

  /// The convolution has one or two spatial dimensions.
  DirectConvolution(const ConvolutionSizes& of, bool has_channels_second);

  std::int64_t group_channels() const { return sizes.channels / sizes.groups; }
  std::int64_t group_columns() const { return sizes.out_channels / sizes.groups; }
  std::int64_t group_panels() const;
  std::int64_t panels() const { return sizes.groups * group_panels(); }
  std::int64_t weight_floats() const { return panels() * depth * panel_columns; }
  std::int64_t padded_floats() const { return is_padded ? sizes.images * image_floats : 0; }

  std::int64_t windows() const { return sizes.images * sizes.windows.out_places(); }
  std::int64_t tiles() const;
  /// Tiles have nearly equal numbers of windows, the first ones one more than the others.
  std::int64_t first_window(std::int64_t tile) const {
    return windows() / tiles() * tile + std::min(tile, windows() % tiles());
  }
  /// The first float that a window of the first group sees, from the first of what they slide over.
  std::int64_t window_offset(std::int64_t window) const;
  const Sight& sight_of(std::int64_t tile) const {
    return sights.empty() ? sight : sights[static_cast<std::size_t>(tile)];
  }
};

/// Writes row `y` of all padded images' rows.
void write_padded_row(const DirectConvolution& of, const float* in, std::int64_t y, float* to);

/// Writes weights [out channel, channel of the group, taps] as panels [group, panel, depth,
/// column], zeros beyond a group's columns.
void write_panels(const DirectConvolution& of, const float* weights, float* panels);

}  // namespace autopar::runtime::cpu
