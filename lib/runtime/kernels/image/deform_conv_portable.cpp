// DeformConv: what each tap sees between places, then products.

#include <algorithm>
#include <cstdint>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/sampled_points.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// What DeformConv says; as convolutions, but each tap of each window lies elsewhere.
struct DeformedConvolution : ConvolutionSizes {
  int dimensions = 2;
  std::int64_t offset_groups = 1;
};

/// Where DeformConv reads, and what it does not add up yet.
template <typename T>
struct DeformedImages {
  using W = Widened<T>;

  const T* in;
  const T* all_offsets;  ///< of each tap, one image of places a dimension
  const T* all_masks;    ///< may be null
  W* all_seen;           ///< rows [image, channel, tap] of places
  DeformedConvolution convolution;

  /// Where a tap of an offset group reads place `i`; `of_tap`: [image, offset group, tap].
  AUTOPAR_ELEMENTWISE SampledPoint<W> point(std::int64_t of_tap, std::int64_t i) const {
    const Windows& windows = convolution.windows;
    const std::int64_t places = windows.out_places();
    const Place tap(of_tap % windows.tap_places(), windows.taps);
    const Place place(i, windows.out);
    const T* offsets = all_offsets + of_tap * convolution.dimensions * places;
    const int absent = Windows::dimensions - convolution.dimensions;
    const auto along = [&](int d) {
      if (d < absent) return alone<W>();
      const int regular =
          place.at[d] * windows.strides[d] + tap.at[d] * windows.dilations[d] - windows.pads[d];
      const W moved = static_cast<W>(regular) + widened(offsets[(d - absent) * places + i]);
      return Neighbours<W>(moved, windows.in[d], Interpolation::linear, Outside::zeros, W(0),
                           static_cast<W>(windows.in[d] - 1));
    };
    return {{along(0), along(1), along(2)}};
  }
  AUTOPAR_ELEMENTWISE W mask(std::int64_t of_tap, std::int64_t i) const {
    const std::int64_t places = convolution.windows.out_places();
    return all_masks == nullptr ? W(1) : static_cast<W>(widened(all_masks[of_tap * places + i]));
  }
  AUTOPAR_ELEMENTWISE std::int64_t channels_of_offsets() const {
    return convolution.channels / convolution.offset_groups;
  }
};

/// What a tap of a channel sees, at each place: rows [image, channel, tap].
template <typename T>
struct DeformedRows {
  DeformedImages<T> of;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    const DeformedConvolution& convolution = of.convolution;
    const Windows& windows = convolution.windows;
    const std::int64_t taps = windows.tap_places();
    const std::int64_t channel = row / taps % convolution.channels;
    const std::int64_t image = row / taps / convolution.channels;
    const std::int64_t group = channel / of.channels_of_offsets();
    const std::int64_t of_tap = (image * convolution.offset_groups + group) * taps + row % taps;
    const T* plane = of.in + row / taps * windows.in_places();
    auto* seen = of.all_seen + row * windows.out_places();
    return [=, images = of](std::int64_t i) {
      seen[i] =
          images.mask(of_tap, i) * images.point(of_tap, i).of(plane, images.convolution.windows.in);
    };
  }
};

/// The same of all channels of an offset group, at some places that follow one another.
template <typename T>
struct DeformedTile {
  static constexpr bool vectorises = true;
  using Tile = SampledTile<Widened<T>>;
  DeformedImages<T> of;

  std::int64_t tiles() const { return Tile::tiles(of.convolution.windows.out_places()); }
  std::int64_t items() const {
    return of.convolution.images * of.convolution.offset_groups *
           of.convolution.windows.tap_places() * tiles();
  }
  std::int64_t item_work() const { return Tile::most_places * 4 * of.channels_of_offsets(); }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const Windows& windows = of.convolution.windows;
    const std::int64_t places = windows.out_places();
    const std::int64_t taps = windows.tap_places();
    const std::int64_t of_tap = item / tiles();
    const std::int64_t first = item % tiles() * Tile::most_places;
    const std::int64_t end = std::min<std::int64_t>(first + Tile::most_places, places);
    Tile tile;
    for (std::int64_t i = first; i < end; ++i)
      tile.add(of.point(of_tap, i), windows.in, of.mask(of_tap, i));
    const std::int64_t channels = of.channels_of_offsets();
    for (std::int64_t c = of_tap / taps * channels; c < (of_tap / taps + 1) * channels; ++c)
      tile.read(of.in + c * windows.in_places(),
                of.all_seen + (c * taps + of_tap % taps) * places + first);
  }
};

/// Some places of some out channels of a group, which share what they read: weights times what the
/// channels of the group have seen.
template <typename T>
struct DeformedProducts {
  static constexpr bool vectorises = true;
  static constexpr int channels_together = on_cpu ? 4 : 1;
  static constexpr int places_together = on_cpu ? 16 : 1;
  using W = Widened<T>;

  const W* all_seen;  ///< [images, groups, channels of a group, taps, places]
  const T* all_weights;
  const T* biases;  ///< may be null
  T* all_out;
  DeformedConvolution convolution;

  AUTOPAR_ELEMENTWISE std::int64_t places() const { return convolution.windows.out_places(); }
  AUTOPAR_ELEMENTWISE std::int64_t of_group() const {
    return convolution.out_channels / convolution.groups;
  }
  AUTOPAR_ELEMENTWISE std::int64_t channel_blocks() const {
    return (of_group() + channels_together - 1) / channels_together;
  }
  AUTOPAR_ELEMENTWISE std::int64_t place_blocks() const {
    return (places() + places_together - 1) / places_together;
  }
  AUTOPAR_ELEMENTWISE std::int64_t rows() const {
    return convolution.channels / convolution.groups * convolution.windows.tap_places();
  }
  std::int64_t items() const {
    return convolution.images * convolution.groups * channel_blocks() * place_blocks();
  }
  std::int64_t item_work() const { return rows() * channels_together * places_together; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t first_place = item % place_blocks() * places_together;
    const std::int64_t in_group = item / place_blocks() % channel_blocks() * channels_together;
    const std::int64_t group = item / place_blocks() / channel_blocks();  // of all images
    const std::int64_t channel = group % convolution.groups * of_group() + in_group;
    const W* const seen = all_seen + group * rows() * places() + first_place;
    W sums[channels_together][places_together];
    add_up(seen, first_place, in_group, channel, sums);
    T* const out = all_out + (group * of_group() + in_group) * places() + first_place;
    for (int c = 0; c < channels_together && in_group + c < of_group(); ++c)
      for (int p = 0; p < places_together && first_place + p < places(); ++p)
        out[c * places() + p] = narrowed<T>(sums[c][p]);
  }

 private:
  using Sums = W[channels_together][places_together];

  AUTOPAR_ELEMENTWISE void add_up(const W* seen, std::int64_t first_place, std::int64_t in_group,
                                  std::int64_t channel, Sums& sums) const {
    const T* weights[channels_together];  // blocks that are not full take their last channel twice
    for (int c = 0; c < channels_together; ++c) {
      const std::int64_t last = of_group() - 1 - in_group;
      const std::int64_t of = channel + (c < last ? c : last);
      weights[c] = all_weights + of * rows();
      for (int p = 0; p < places_together; ++p)
        sums[c][p] = biases == nullptr ? W{0} : static_cast<W>(widened(biases[of]));
    }
    const std::int64_t last_place = places() - 1 - first_place;
    const bool is_whole = last_place >= places_together - 1;
    for (std::int64_t row = 0; row < rows(); ++row, seen += places()) {
      W at_places[places_together];
      if (is_whole)
        for (int p = 0; p < places_together; ++p) at_places[p] = seen[p];
      else
        for (int p = 0; p < places_together; ++p)
          at_places[p] = seen[p < last_place ? p : last_place];
      for (int c = 0; c < channels_together; ++c) {
        const W weight = widened(weights[c][row]);
        for (int p = 0; p < places_together; ++p) sums[c][p] += weight * at_places[p];
      }
    }
  }
};

namespace {

DeformedConvolution deformed_convolution_of(const KernelRequest& request) {
  for (const TensorView& input : request.inputs)
    if (input.present()) {
      require_type(request, input.type, AllFloats{});
      if (input.type != request.inputs[0].type) fail_type(request, input.type);
    }
  const TensorView& in = request.inputs.at(0);
  const TensorView& weights = request.inputs.at(1);
  const TensorView& out = request.outputs.at(0);
  const Shape taps = places_of(weights);
  DeformedConvolution of;
  of.windows = windows_of(request, places_of(in), places_of(out), taps, slide_of(request, taps));
  of.dimensions = static_cast<int>(taps.size());
  of.images = in.shape[0];
  of.channels = in.shape[1];
  of.out_channels = out.shape[1];
  of.groups = request.node.int_attribute("group", 1);
  of.offset_groups = request.node.int_attribute("offset_group", 1);
  const auto has_elements = [&](std::size_t input, std::int64_t elements, bool is_optional) {
    return is_given(request.inputs, input) ? request.inputs[input].elements() == elements
                                           : is_optional || elements == 0;
  };
  const std::int64_t of_taps =
      of.images * of.offset_groups * of.windows.tap_places() * of.windows.out_places();
  const bool fits =
      of.groups >= 1 && of.offset_groups >= 1 && weights.shape[1] * of.groups == of.channels &&
      weights.shape[0] == of.out_channels && of.out_channels % of.groups == 0 &&
      of.channels % of.offset_groups == 0 && has_elements(2, of_taps * of.dimensions, false) &&
      has_elements(3, of.out_channels, true) && has_elements(4, of_taps, true);
  if (!fits)
    fail("node '{}': the offsets, weights and groups of DeformConv do not fit", request.node.name);
  return of;
}

}  // namespace

std::unique_ptr<Kernel> make_deform_conv(const KernelRequest& request) {
  const DeformedConvolution of = deformed_convolution_of(request);
  const std::int64_t places = of.windows.out_places();
  const std::int64_t rows = of.images * of.channels * of.windows.tap_places();
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    const auto run = [=](const KernelIo& io, const Loops& loops) {
      if (io.outputs[0].elements() == 0) return;
      auto* seen = reinterpret_cast<Widened<T>*>(io.scratch);
      const DeformedImages<T> images{io.inputs[0].as<const T>(), io.inputs[2].as<const T>(),
                                     optional_data<const T>(io.inputs, 4), seen, of};
      if constexpr (on_cpu) {
        const DeformedTile<T> tile{images};
        loops.each(tile.items(), tile);
      } else {
        loops.rows(rows, places, DeformedRows<T>{images});
      }
      const DeformedProducts<T> products{seen, io.inputs[1].as<const T>(),
                                         optional_data<const T>(io.inputs, 3),
                                         io.outputs[0].as<T>(), of};
      loops.each(products.items(), products);
    };
    return make_loops(request, run, rows * places * std::int64_t{sizeof(double)});
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
