#pragma once

#include <cstdint>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/kernels/common/host_device.h"

/// Windows that slide over images, for all devices: what convolutions and poolings say, and which
/// elements a window sees. Images are [image, channel, places].
namespace autopar::runtime {

/// How windows slide, whatever their padding was written as. Lists have one entry a spatial
/// dimension.
struct Slide {
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> begin_pads;
  /// What the last window needs; it may be less than the node's own, or negative.
  std::vector<std::int64_t> end_pads;

  /// Places between two taps, as oneDNN counts dilations.
  std::vector<std::int64_t> gaps() const;
};

/// A list of the node that has so many entries; Error where it has others.
std::vector<std::int64_t> spatial_list(const KernelRequest& request, const char* name,
                                       std::size_t entries, std::int64_t otherwise);

/// Windows of these `taps` over the spatial dimensions of input 0, one for each place of
/// output 0. Throws Error for lists that are not of that many dimensions.
Slide slide_of(const KernelRequest& request, const Shape& taps);

/// The same where windows slide over the output, one for each place of input 0 (ConvTranspose).
Slide transposed_slide_of(const KernelRequest& request, const Shape& taps);

/// The spatial extents of images, or taps of weights; Error where they have no channels.
Shape places_of(const TensorView& images);

/// Windows over three spatial dimensions; those that are not there come first and have extent 1.
struct Windows {
  static constexpr int dimensions = 3;

  int in[dimensions] = {1, 1, 1};
  int out[dimensions] = {1, 1, 1};
  int taps[dimensions] = {1, 1, 1};
  int strides[dimensions] = {1, 1, 1};
  int dilations[dimensions] = {1, 1, 1};
  int pads[dimensions] = {};  ///< before the first place

  AUTOPAR_ELEMENTWISE static std::int64_t places(const int* extents) {
    return static_cast<std::int64_t>(extents[0]) * extents[1] * extents[2];
  }
  AUTOPAR_ELEMENTWISE std::int64_t in_places() const { return places(in); }
  AUTOPAR_ELEMENTWISE std::int64_t out_places() const { return places(out); }
  AUTOPAR_ELEMENTWISE std::int64_t tap_places() const { return places(taps); }

  /// Whether each output place sees the input place of its own index, and it alone.
  bool is_identity() const;
};

/// Windows of `taps` over places of `in`, one for each of `out`. Throws Error naming the node where
/// there are more than three spatial dimensions, or extents beyond 31 bits.
Windows windows_of(const KernelRequest& request, const Shape& in, const Shape& out,
                   const Shape& taps, const Slide& slide);
/// The same of single taps: extents of two images, side by side.
Windows windows_of(const KernelRequest& request, const Shape& in, const Shape& out);

/// An index as one a spatial dimension.
struct Place {
  int at[Windows::dimensions];

  AUTOPAR_ELEMENTWISE Place(std::int64_t flat, const int* extents) {
    auto index = static_cast<std::uint32_t>(flat);
    at[2] = static_cast<int>(index % static_cast<std::uint32_t>(extents[2]));
    index /= static_cast<std::uint32_t>(extents[2]);
    at[1] = static_cast<int>(index % static_cast<std::uint32_t>(extents[1]));
    at[0] = static_cast<int>(index / static_cast<std::uint32_t>(extents[1]));
  }

  AUTOPAR_ELEMENTWISE void advance(const int* extents) {
    if (++at[2] < extents[2]) return;
    at[2] = 0;
    if (++at[1] < extents[1]) return;
    at[1] = 0;
    ++at[0];
  }
};

/// Elements from an image's channel to what a window's tap sees of it; -1 in the padding.
AUTOPAR_ELEMENTWISE std::int64_t seen(const Windows& windows, const Place& out, const Place& tap) {
  std::int64_t offset = 0;
  bool is_inside = true;
  for (int d = 0; d < Windows::dimensions; ++d) {
    const int at =
        out.at[d] * windows.strides[d] + tap.at[d] * windows.dilations[d] - windows.pads[d];
    is_inside = is_inside && at >= 0 && at < windows.in[d];
    offset = offset * windows.in[d] + at;
  }
  return is_inside ? offset : -1;
}

/// The taps of a window, along each dimension, that lie inside of the image: [first, last).
struct TapsInside {
  int begin[Windows::dimensions];  ///< where tap 0 lies
  int first[Windows::dimensions];
  int last[Windows::dimensions];

  AUTOPAR_ELEMENTWISE TapsInside(const Windows& windows, const Place& out) {
    for (int d = 0; d < Windows::dimensions; ++d) {
      const int dilation = windows.dilations[d];
      begin[d] = out.at[d] * windows.strides[d] - windows.pads[d];
      first[d] = begin[d] < 0 ? (-begin[d] + dilation - 1) / dilation : 0;
      last[d] = taps_before(windows, d, windows.in[d]);
    }
  }

  /// Taps along a dimension that lie before `extent`.
  AUTOPAR_ELEMENTWISE int taps_before(const Windows& windows, int d, int extent) const {
    const int room = extent - begin[d];
    const int dilation = windows.dilations[d];
    const int taps = room <= 0 ? 0 : (room + dilation - 1) / dilation;
    return taps < windows.taps[d] ? taps : windows.taps[d];
  }

  /// Calls `visit(offset)` for each, offsets counted from the channel's first element, in order.
  template <typename Visit>
  AUTOPAR_ELEMENTWISE void visit(const Windows& windows, Visit visit) const {
    for (int i = first[0]; i < last[0]; ++i) {
      const std::int64_t plane = begin[0] + i * windows.dilations[0];
      for (int j = first[1]; j < last[1]; ++j) {
        const std::int64_t row = plane * windows.in[1] + begin[1] + j * windows.dilations[1];
        for (int k = first[2]; k < last[2]; ++k)
          visit(row * windows.in[2] + begin[2] + k * windows.dilations[2]);
      }
    }
  }
};

}  // namespace autopar::runtime
