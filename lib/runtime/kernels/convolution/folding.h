#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/convolution/convolution.h"

/// The reverse of looking through windows: Col2Im and ConvTranspose. Windows slide over the output:
/// `in` are its places, and there is a window for each place of the input, `out`.
namespace autopar::runtime {

/// Calls `visit(window, tap)` for each tap that lies on a place of the image, flat indices both.
template <typename Visit>
AUTOPAR_ELEMENTWISE void visit_windows_on(const Windows& windows, const Place& place, Visit visit) {
  int first[Windows::dimensions];  // window of tap 0 times its stride
  for (int d = 0; d < Windows::dimensions; ++d) first[d] = place.at[d] + windows.pads[d];
  const auto window_of = [&](int d, int tap) {
    const int begin = first[d] - tap * windows.dilations[d];
    if (begin < 0 || begin % windows.strides[d] != 0) return -1;
    const int window = begin / windows.strides[d];
    return window < windows.out[d] ? window : -1;
  };
  for (int i = 0; i < windows.taps[0]; ++i) {
    const int a = window_of(0, i);
    if (a < 0) continue;
    for (int j = 0; j < windows.taps[1]; ++j) {
      const int b = window_of(1, j);
      if (b < 0) continue;
      for (int k = 0; k < windows.taps[2]; ++k) {
        const int c = window_of(2, k);
        if (c < 0) continue;
        visit((std::int64_t{a} * windows.out[1] + b) * windows.out[2] + c,
              (std::int64_t{i} * windows.taps[1] + j) * windows.taps[2] + k);
      }
    }
  }
}

/// What columns are added up in: integers wrap around.
template <typename T>
using FoldSum = std::conditional_t<std::is_floating_point_v<Widened<T>>, Widened<T>, std::uint64_t>;

/// One element of images that columns [image, channel, tap, window] are added up to.
template <typename T>
struct FoldedElement {
  const T* columns;  ///< [images, channels, taps, windows]
  const T* bias;     ///< one a channel; may be null
  T* out;            ///< [images, channels, places]
  Windows windows;
  std::int64_t channels;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t places = windows.in_places();
    const std::int64_t plane = i / places;
    const std::int64_t each = windows.out_places();
    const T* of_plane = columns + plane * windows.tap_places() * each;
    FoldSum<T> sum = 0;
    if (bias != nullptr) sum = static_cast<FoldSum<T>>(widened(bias[plane % channels]));
    visit_windows_on(windows, Place(i % places, windows.in),
                     [&](std::int64_t window, std::int64_t tap) {
                       sum += static_cast<FoldSum<T>>(widened(of_plane[tap * each + window]));
                     });
    out[i] = narrowed<T>(sum);
  }
};

/// One element of ConvTranspose by its definition.
template <typename T>
struct TransposedConvolutionElement {
  const T* in;       ///< [images, channels, windows]
  const T* weights;  ///< [channels, out channels of the group, taps]
  const T* bias;     ///< may be null
  T* out;            ///< [images, out channels, places]
  ConvolutionSizes convolution;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const Windows& windows = convolution.windows;
    const std::int64_t places = windows.in_places();
    const std::int64_t out_in_group = convolution.out_channels / convolution.groups;
    const std::int64_t in_group = convolution.channels / convolution.groups;
    const std::int64_t out_channel = i / places % convolution.out_channels;
    const std::int64_t image = i / places / convolution.out_channels;
    const std::int64_t first_channel = out_channel / out_in_group * in_group;
    const std::int64_t each = windows.out_places();
    const std::int64_t taps = windows.tap_places();
    Widened<T> sum = bias == nullptr ? Widened<T>{0} : widened(bias[out_channel]);
    const Place place(i % places, windows.in);
    for (std::int64_t c = first_channel; c < first_channel + in_group; ++c) {
      const T* seen_plane = in + (image * convolution.channels + c) * each;
      const T* of_taps = weights + (c * out_in_group + out_channel % out_in_group) * taps;
      visit_windows_on(windows, place, [&](std::int64_t window, std::int64_t tap) {
        sum += widened(seen_plane[window]) * widened(of_taps[tap]);
      });
    }
    out[i] = narrowed<T>(sum);
  }
};

}  // namespace autopar::runtime
