// GridSample, AffineGrid and DeformConv: images read between their places.

#include <cmath>
#include <cstdint>

#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/image/kernels.h"

// A function that GPUs call, rather than have once more at each place: it is large.
#if defined(__CUDACC__)
#define AUTOPAR_CALLED __host__ __device__ __noinline__
#else
#define AUTOPAR_CALLED inline
#endif

namespace autopar::runtime::AUTOPAR_DEVICE {

enum class Interpolation { nearest, linear, cubic };
/// What lies outside of an image.
enum class Outside { zeros, border, reflection };

/// `x` folded back between both ends by mirrors that stand there.
template <typename W>
AUTOPAR_ELEMENTWISE W reflected(W x, W low, W high) {
  const W range = high - low;
  if (range <= 0) return low;
  if (x >= low && x <= high) return x;
  const W beyond = x < low ? low - x : x - high;
  const W turns = std::floor(beyond / range);
  const W rest = beyond - turns * range;
  const bool is_even = turns - 2 * std::floor(turns / 2) == 0;
  return (x < low) == is_even ? low + rest : high - rest;
}

/// Neighbours of a coordinate along one dimension and their weights; -1 is a place that has 0.
template <typename W>
struct Neighbours {
  static constexpr int most = 4;

  int count = 0;
  int places[most] = {};
  W weights[most] = {};

  /// The coordinate counts places from 0 to `extent` - 1; mirrors stand at `low` and `high`.
  AUTOPAR_CALLED Neighbours(W x, int extent, Interpolation mode, Outside outside, W low, W high) {
    // What is no number, or none that can be counted, is far outside.
    constexpr W far = 1 << 24;
    if (!(x > -far)) x = -far;
    if (x > far) x = far;
    if (mode == Interpolation::nearest) x = std::rint(x);
    if (x < low || x > high) {
      const W last = static_cast<W>(extent - 1);
      if (outside == Outside::border) x = x < 0 ? W(0) : (x > last ? last : x);
      if (outside == Outside::reflection) x = reflected(x, low, high);
    }
    const auto add = [&](int place, W weight) {
      if (outside == Outside::border) place = place < 0 ? 0 : (place < extent ? place : extent - 1);
      if (outside == Outside::reflection)
        place = static_cast<int>(reflected(static_cast<W>(place), low, high));
      places[count] = place >= 0 && place < extent ? place : -1;
      weights[count] = weight;
      ++count;
    };
    const W base = std::floor(x);
    const W t = x - base;
    const int first = static_cast<int>(base);
    if (mode == Interpolation::nearest) {
      add(first, 1);
      return;
    }
    if (mode == Interpolation::linear) {
      add(first, 1 - t);
      add(first + 1, t);
      return;
    }
    for (int k = -1; k <= 2; ++k)
      add(first + k, cubic(k <= 0 ? t - static_cast<W>(k) : static_cast<W>(k) - t));
  }

 private:
  /// Keys' kernel with a = -0.75.
  AUTOPAR_ELEMENTWISE static W cubic(W distance) {
    const W a = W(-0.75);
    if (distance <= 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
  }
};

/// What a point of an image is made of; dimensions that are not there come first.
template <typename W>
struct SampledPoint {
  Neighbours<W> along[Windows::dimensions];

  template <typename T>
  AUTOPAR_CALLED W of(const T* plane, const int* extents) const {
    W sum = 0;
    for (int i = 0; i < along[0].count; ++i) {
      const int a = along[0].places[i];
      if (a < 0) continue;
      for (int j = 0; j < along[1].count; ++j) {
        const int b = along[1].places[j];
        if (b < 0) continue;
        const T* row = plane + (std::int64_t{a} * extents[1] + b) * extents[2];
        W in_row = 0;
        for (int k = 0; k < along[2].count; ++k) {
          const int c = along[2].places[k];
          if (c >= 0) in_row += along[2].weights[k] * static_cast<W>(widened(row[c]));
        }
        sum += along[0].weights[i] * along[1].weights[j] * in_row;
      }
    }
    return sum;
  }
};

struct Sampling {
  Interpolation mode = Interpolation::linear;
  Outside outside = Outside::zeros;
  bool aligns_corners = false;
  int dimensions = 2;
  Windows image;  ///< its `in` are the places of an image
  std::int64_t channels = 0;
  std::int64_t places = 0;  ///< of an image of the output

  /// Neighbours along a dimension that is not there.
  template <typename W>
  AUTOPAR_ELEMENTWISE static Neighbours<W> alone() {
    return Neighbours<W>(0, 1, Interpolation::nearest, Outside::zeros, 0, 0);
  }

  /// The places around a grid's coordinate, -1 and 1 being the ends of the dimension.
  template <typename W>
  AUTOPAR_ELEMENTWISE Neighbours<W> neighbours(int d, W coordinate) const {
    const W extent = static_cast<W>(image.in[d]);
    if (aligns_corners)
      return Neighbours<W>((coordinate + 1) / 2 * (extent - 1), image.in[d], mode, outside, W(0),
                           extent - 1);
    return Neighbours<W>(((coordinate + 1) * extent - 1) / 2, image.in[d], mode, outside, W(-0.5),
                         extent - W(0.5));
  }
};

/// All channels of one place.
template <typename T>
struct GridSampleElement {
  using W = Widened<T>;

  const T* in;     ///< [images, channels, places]
  AnyFloats grid;  ///< [images, out places, dimensions]
  T* out;          ///< [images, channels, out places]
  Sampling sampling;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t image = i / sampling.places;
    const std::int64_t place = i % sampling.places;
    const auto along = [&](int d) {
      const int absent = Windows::dimensions - sampling.dimensions;
      if (d < absent) return Sampling::alone<W>();
      // The last dimension comes first in the grid.
      const std::int64_t at = i * sampling.dimensions + (Windows::dimensions - 1 - d);
      return sampling.neighbours<W>(d, static_cast<W>(grid.at(at)));
    };
    const SampledPoint<W> point{{along(0), along(1), along(2)}};
    const std::int64_t plane = sampling.image.in_places();
    for (std::int64_t c = image * sampling.channels; c < (image + 1) * sampling.channels; ++c)
      out[c * sampling.places + place] = narrowed<T>(point.of(in + c * plane, sampling.image.in));
  }
};

/// One coordinate of a point of a grid: a row of theta times the point of the regular grid.
template <typename T>
struct AffineGridElement {
  using W = Widened<T>;

  const T* theta;  ///< [image, dimensions, dimensions + 1], the last dimension first
  T* out;          ///< [images, places, dimensions]
  Sampling sampling;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const int dimensions = sampling.dimensions;
    const std::int64_t point = i / dimensions;
    const T* row =
        theta + (point / sampling.places * dimensions + i % dimensions) * (dimensions + 1);
    const Place place(point % sampling.places, sampling.image.in);
    W sum = widened(row[dimensions]);
    for (int d = 0; d < dimensions; ++d) {
      const int at = Windows::dimensions - 1 - d;
      sum += widened(row[d]) * regular(place.at[at], sampling.image.in[at]);
    }
    out[i] = narrowed<T>(sum);
  }

  /// From -1 to 1, which are the centres of the outermost places or their ends.
  AUTOPAR_ELEMENTWISE W regular(int place, int extent) const {
    const W at = static_cast<W>(2 * place);
    if (!sampling.aligns_corners) return (at + 1) / static_cast<W>(extent) - 1;
    return extent == 1 ? W(0) : at / static_cast<W>(extent - 1) - 1;
  }
};

/// What DeformConv says; as convolutions, but each tap of each window lies elsewhere.
struct DeformedConvolution : ConvolutionSizes {
  int dimensions = 2;
  std::int64_t offset_groups = 1;
};

/// What a tap of a channel sees, at each place: rows [image, channel, tap].
template <typename T>
struct DeformedRows {
  using W = Widened<T>;

  const T* in;
  const T* all_offsets;  ///< of each tap, one image of places a dimension
  const T* all_masks;    ///< may be null
  W* all_seen;
  DeformedConvolution convolution;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    const Windows& windows = convolution.windows;
    const std::int64_t taps = windows.tap_places();
    const std::int64_t places = windows.out_places();
    const std::int64_t channel = row / taps % convolution.channels;
    const std::int64_t image = row / taps / convolution.channels;
    const std::int64_t group = channel / (convolution.channels / convolution.offset_groups);
    const std::int64_t of_tap = (image * convolution.offset_groups + group) * taps + row % taps;
    const T* plane = in + row / taps * windows.in_places();
    const T* offsets = all_offsets + of_tap * convolution.dimensions * places;
    const T* mask = all_masks == nullptr ? nullptr : all_masks + of_tap * places;
    W* seen = all_seen + row * places;
    const int absent = Windows::dimensions - convolution.dimensions;
    return [=, tap = Place(row % taps, windows.taps)](std::int64_t i) {
      const Place place(i, windows.out);
      const auto along = [&](int d) {
        if (d < absent) return Sampling::alone<W>();
        const int regular =
            place.at[d] * windows.strides[d] + tap.at[d] * windows.dilations[d] - windows.pads[d];
        const W moved = static_cast<W>(regular) + widened(offsets[(d - absent) * places + i]);
        return Neighbours<W>(moved, windows.in[d], Interpolation::linear, Outside::zeros, W(0),
                             static_cast<W>(windows.in[d] - 1));
      };
      const SampledPoint<W> point{{along(0), along(1), along(2)}};
      const W value = point.of(plane, windows.in);
      seen[i] = mask == nullptr ? value : value * widened(mask[i]);
    };
  }
};

/// The out channels of images: weights times what the channels of the group have seen.
template <typename T>
struct DeformedProducts {
  using W = Widened<T>;

  const W* all_seen;  ///< [images, groups, channels of a group, taps, places]
  const T* all_weights;
  const T* biases;  ///< may be null
  T* all_out;
  DeformedConvolution convolution;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t plane) const {
    const std::int64_t places = convolution.windows.out_places();
    const std::int64_t channel = plane % convolution.out_channels;
    const std::int64_t image = plane / convolution.out_channels;
    const std::int64_t group = channel / (convolution.out_channels / convolution.groups);
    const std::int64_t rows =
        convolution.channels / convolution.groups * convolution.windows.tap_places();
    const W* seen = all_seen + (image * convolution.groups + group) * rows * places;
    const T* weights = all_weights + channel * rows;
    T* out = all_out + plane * places;
    const W bias = biases == nullptr ? W{0} : widened(biases[channel]);
    return [=](std::int64_t i) {
      W sum = bias;
      for (std::int64_t row = 0; row < rows; ++row)
        sum += widened(weights[row]) * seen[row * places + i];
      out[i] = narrowed<T>(sum);
    };
  }
};

std::unique_ptr<Kernel> make_grid_sample(const KernelRequest& request) {
  for (std::size_t i = 0; i < 2; ++i) require_type(request, request.inputs.at(i).type, AllFloats{});
  Sampling sampling;
  sampling.mode = named_attribute<Interpolation>(request, "mode", "linear",
                                                 {{"nearest", Interpolation::nearest},
                                                  {"linear", Interpolation::linear},
                                                  {"cubic", Interpolation::cubic}});
  sampling.outside = named_attribute<Outside>(request, "padding_mode", "zeros",
                                              {{"zeros", Outside::zeros},
                                               {"border", Outside::border},
                                               {"reflection", Outside::reflection}});
  sampling.aligns_corners = request.node.int_attribute("align_corners", 0) != 0;
  const Shape in = places_of(request.inputs[0]);
  const Shape out = places_of(request.outputs.at(0));
  const Shape& grid = request.inputs[1].shape;
  const std::size_t spatial = in.size();
  const bool fits = spatial >= 1 && spatial <= Windows::dimensions && out.size() == spatial &&
                    grid.size() == spatial + 2 &&
                    grid.back() == static_cast<std::int64_t>(spatial) &&
                    grid[0] == request.inputs[0].shape[0] &&
                    (request.inputs[0].elements() > 0 || request.outputs[0].elements() == 0);
  if (!fits)
    fail("node '{}': GridSample over {} spatial dimensions with a grid {} has no kernel",
         request.node.name, spatial, graph::to_string(grid));
  sampling.image = windows_of(request, in, out);
  sampling.dimensions = static_cast<int>(spatial);
  sampling.channels = request.inputs[0].shape[1];
  sampling.places = sampling.image.out_places();
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      const TensorView& to = io.outputs[0];
      if (to.elements() == 0) return;
      loops.each(to.shape[0] * sampling.places,
                 GridSampleElement<T>{io.inputs[0].as<const T>(), AnyFloats(io.inputs[1]),
                                      to.as<T>(), sampling});
    });
  });
}

std::unique_ptr<Kernel> make_affine_grid(const KernelRequest& request) {
  require_type(request, request.inputs.at(0).type, AllFloats{});
  const Shape& theta = request.inputs[0].shape;
  const Shape& grid = request.outputs.at(0).shape;
  const auto dimensions = static_cast<std::int64_t>(grid.size()) - 2;
  if ((dimensions != 2 && dimensions != 3) || theta != Shape{grid[0], dimensions, dimensions + 1} ||
      grid.back() != dimensions)
    fail("node '{}': AffineGrid of theta {} has no kernel", request.node.name,
         graph::to_string(theta));
  const Shape image(grid.begin() + 1, grid.end() - 1);
  Sampling sampling;  // of the image that the grid covers
  sampling.image = windows_of(request, image, image);
  sampling.dimensions = static_cast<int>(dimensions);
  sampling.places = sampling.image.in_places();
  sampling.aligns_corners = request.node.int_attribute("align_corners", 0) != 0;
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(io.outputs[0].elements(),
                 AffineGridElement<T>{io.inputs[0].as<const T>(), io.outputs[0].as<T>(), sampling});
    });
  });
}

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
      loops.rows(rows, places,
                 DeformedRows<T>{io.inputs[0].as<const T>(), io.inputs[2].as<const T>(),
                                 optional_data<const T>(io.inputs, 4), seen, of});
      loops.rows(
          of.images * of.out_channels, places,
          DeformedProducts<T>{seen, io.inputs[1].as<const T>(),
                              optional_data<const T>(io.inputs, 3), io.outputs[0].as<T>(), of});
    };
    return make_loops(request, run, rows * places * std::int64_t{sizeof(double)});
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
