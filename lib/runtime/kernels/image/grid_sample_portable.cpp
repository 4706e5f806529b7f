// GridSample, AffineGrid and DeformConv: images read between their places.

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "base/error.h"
#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/convolution/windows.h"
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
    if (mode == Interpolation::nearest) {
      add(static_cast<int>(x), 1, extent, outside, low, high);
      return;
    }
    const W base = std::floor(x);
    const W t = x - base;
    const int first = static_cast<int>(base);
    if (mode == Interpolation::linear) {
      add(first, 1 - t, extent, outside, low, high);
      add(first + 1, t, extent, outside, low, high);
      return;
    }
    for (int k = -1; k <= 2; ++k) {
      const W distance = k <= 0 ? t - static_cast<W>(k) : static_cast<W>(k) - t;
      add(first + k, cubic(distance), extent, outside, low, high);
    }
  }

 private:
  /// Keys' kernel with a = -0.75.
  AUTOPAR_ELEMENTWISE static W cubic(W distance) {
    const W a = W(-0.75);
    if (distance <= 1) return ((a + 2) * distance - (a + 3)) * distance * distance + 1;
    return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
  }

  AUTOPAR_ELEMENTWISE void add(int place, W weight, int extent, Outside outside, W low, W high) {
    if (outside == Outside::border) place = place < 0 ? 0 : (place < extent ? place : extent - 1);
    if (outside == Outside::reflection)
      place = static_cast<int>(reflected(static_cast<W>(place), low, high));
    places[count] = place >= 0 && place < extent ? place : -1;
    weights[count] = weight;
    ++count;
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
  int extents[Windows::dimensions] = {1, 1, 1};
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
    const W extent = static_cast<W>(extents[d]);
    if (aligns_corners)
      return Neighbours<W>((coordinate + 1) / 2 * (extent - 1), extents[d], mode, outside, W(0),
                           extent - 1);
    return Neighbours<W>(((coordinate + 1) * extent - 1) / 2, extents[d], mode, outside, W(-0.5),
                         extent - W(0.5));
  }
};

/// All channels of one place.
template <typename T>
struct GridSampleElement {
  using W = WideFloat<T>;

  const T* in;
  AnyFloats grid;
  T* out;
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
    const std::int64_t plane = Windows::places(sampling.extents);
    for (std::int64_t c = image * sampling.channels; c < (image + 1) * sampling.channels; ++c)
      out[c * sampling.places + place] = narrowed<T>(point.of(in + c * plane, sampling.extents));
  }
};

class GridSample {
 public:
  explicit GridSample(const KernelRequest& request);

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      loops.each(out.shape[0] * sampling_.places,
                 GridSampleElement<T>{io.inputs[0].as<const T>(), AnyFloats(io.inputs[1]),
                                      out.as<T>(), sampling_});
    });
  }

 private:
  Sampling sampling_;
};

/// One coordinate of a point of a grid: a row of theta times the point of the regular grid.
template <typename T>
struct AffineGridElement {
  using W = WideFloat<T>;

  const T* theta;  ///< [image, dimensions, dimensions + 1], the last dimension first
  T* out;
  Sampling sampling;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const int dimensions = sampling.dimensions;
    const std::int64_t point = i / dimensions;
    const T* row =
        theta + (point / sampling.places * dimensions + i % dimensions) * (dimensions + 1);
    const Place place(point % sampling.places, sampling.extents);
    W sum = widened(row[dimensions]);
    for (int d = 0; d < dimensions; ++d) {
      const int at = Windows::dimensions - 1 - d;
      sum += widened(row[d]) * regular(place.at[at], sampling.extents[at]);
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

class AffineGrid {
 public:
  explicit AffineGrid(const KernelRequest& request);

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      loops.each(out.elements(),
                 AffineGridElement<T>{io.inputs[0].as<const T>(), out.as<T>(), sampling_});
    });
  }

 private:
  Sampling sampling_;  ///< of the image that the grid covers
};

/// What DeformConv says; as convolutions, but each tap of each window lies elsewhere.
struct DeformedConvolution {
  Windows windows;
  int dimensions = 2;
  std::int64_t images = 0;
  std::int64_t channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t groups = 1;
  std::int64_t offset_groups = 1;

  explicit DeformedConvolution(const KernelRequest& request);
};

/// What a tap of a channel sees, at each place: rows [image, channel, tap].
template <typename T>
struct DeformedRow {
  using W = WideFloat<T>;

  const T* plane;
  const T* offsets;  ///< of the tap, one image of places a dimension
  const T* mask;     ///< may be null
  W* seen;
  Windows windows;
  Place tap;
  int dimensions;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const Place place(i, windows.out);
    const auto along = [&](int d) {
      const int absent = Windows::dimensions - dimensions;
      if (d < absent) return Sampling::alone<W>();
      const int regular =
          place.at[d] * windows.strides[d] + tap.at[d] * windows.dilations[d] - windows.pads[d];
      const W moved =
          static_cast<W>(regular) + widened(offsets[(d - absent) * windows.out_places() + i]);
      return Neighbours<W>(moved, windows.in[d], Interpolation::linear, Outside::zeros, W(0),
                           static_cast<W>(windows.in[d] - 1));
    };
    const SampledPoint<W> point{{along(0), along(1), along(2)}};
    const W value = point.of(plane, windows.in);
    seen[i] = mask == nullptr ? value : value * widened(mask[i]);
  }
};

template <typename T>
struct DeformedRows {
  const T* in;
  const T* offsets;
  const T* mask;
  WideFloat<T>* seen;
  DeformedConvolution convolution;

  AUTOPAR_ELEMENTWISE DeformedRow<T> operator()(std::int64_t row) const {
    const Windows& windows = convolution.windows;
    const std::int64_t taps = windows.tap_places();
    const std::int64_t places = windows.out_places();
    const std::int64_t tap = row % taps;
    const std::int64_t plane = row / taps;
    const std::int64_t channel = plane % convolution.channels;
    const std::int64_t image = plane / convolution.channels;
    const std::int64_t group = channel / (convolution.channels / convolution.offset_groups);
    const std::int64_t of_tap = (image * convolution.offset_groups + group) * taps + tap;
    return {in + plane * windows.in_places(),
            offsets + of_tap * convolution.dimensions * places,
            mask == nullptr ? nullptr : mask + of_tap * places,
            seen + row * places,
            windows,
            Place(tap, windows.taps),
            convolution.dimensions};
  }
};

/// An out channel of an image: its weights times what the channels of its group have seen.
template <typename T>
struct DeformedProduct {
  using W = WideFloat<T>;

  const W* seen;
  const T* weights;
  T* out;
  std::int64_t rows;
  std::int64_t places;
  W bias;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    W sum = bias;
    for (std::int64_t row = 0; row < rows; ++row)
      sum += widened(weights[row]) * seen[row * places + i];
    out[i] = narrowed<T>(sum);
  }
};

template <typename T>
struct DeformedProducts {
  const WideFloat<T>* seen;
  const T* weights;
  const T* bias;  ///< may be null
  T* out;
  DeformedConvolution convolution;

  AUTOPAR_ELEMENTWISE DeformedProduct<T> operator()(std::int64_t plane) const {
    const Windows& windows = convolution.windows;
    const std::int64_t places = windows.out_places();
    const std::int64_t channel = plane % convolution.out_channels;
    const std::int64_t image = plane / convolution.out_channels;
    const std::int64_t in_group = convolution.channels / convolution.groups;
    const std::int64_t group = channel / (convolution.out_channels / convolution.groups);
    const std::int64_t rows = in_group * windows.tap_places();
    return {seen + (image * convolution.groups + group) * rows * places,
            weights + channel * rows,
            out + plane * places,
            rows,
            places,
            bias == nullptr ? WideFloat<T>{0} : widened(bias[channel])};
  }
};

class DeformConv {
 public:
  explicit DeformConv(const KernelRequest& request) : convolution_(request) {}

  std::int64_t scratch_bytes() const {
    const Windows& windows = convolution_.windows;
    return convolution_.images * convolution_.channels * windows.tap_places() *
           windows.out_places() * static_cast<std::int64_t>(sizeof(double));
  }

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    const Windows& windows = convolution_.windows;
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      const auto optional = [&](std::size_t input) {
        const bool is_there = io.inputs.size() > input && io.inputs[input].present();
        return is_there ? io.inputs[input].as<const T>() : nullptr;
      };
      auto* seen = reinterpret_cast<WideFloat<T>*>(io.scratch);
      loops.rows(convolution_.images * convolution_.channels * windows.tap_places(),
                 windows.out_places(),
                 DeformedRows<T>{io.inputs[0].as<const T>(), io.inputs[2].as<const T>(),
                                 optional(4), seen, convolution_});
      loops.rows(convolution_.images * convolution_.out_channels, windows.out_places(),
                 DeformedProducts<T>{seen, io.inputs[1].as<const T>(), optional(3), out.as<T>(),
                                     convolution_});
    });
  }

 private:
  DeformedConvolution convolution_;
};

namespace {

void require_float(const KernelRequest& request, std::size_t input) {
  const DataType type = request.inputs.at(input).type;
  if (!visit_type(type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, type);
}

template <typename Value>
Value named(const KernelRequest& request, const char* attribute, const char* otherwise,
            const std::map<std::string, Value>& by_name) {
  const std::string name = request.node.string_attribute(attribute, otherwise);
  const auto found = by_name.find(name);
  if (found == by_name.end())
    fail("node '{}': {} has no {} '{}'", request.node.name, request.node.op_type, attribute, name);
  return found->second;
}

}  // namespace

GridSample::GridSample(const KernelRequest& request) {
  require_float(request, 0);
  require_float(request, 1);
  sampling_.mode = named<Interpolation>(request, "mode", "linear",
                                        {{"nearest", Interpolation::nearest},
                                         {"linear", Interpolation::linear},
                                         {"cubic", Interpolation::cubic}});
  sampling_.outside = named<Outside>(request, "padding_mode", "zeros",
                                     {{"zeros", Outside::zeros},
                                      {"border", Outside::border},
                                      {"reflection", Outside::reflection}});
  sampling_.aligns_corners = request.node.int_attribute("align_corners", 0) != 0;
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
  const Shape ones(spatial, 1);
  const Windows places = windows_of(request, in, out, ones, {ones, ones, Shape(spatial, 0), {}});
  sampling_.dimensions = static_cast<int>(spatial);
  for (int d = 0; d < Windows::dimensions; ++d) sampling_.extents[d] = places.in[d];
  sampling_.channels = request.inputs[0].shape[1];
  sampling_.places = places.out_places();
}

AffineGrid::AffineGrid(const KernelRequest& request) {
  require_float(request, 0);
  const Shape& theta = request.inputs[0].shape;
  const Shape& grid = request.outputs.at(0).shape;
  const auto dimensions = static_cast<std::int64_t>(grid.size()) - 2;
  if ((dimensions != 2 && dimensions != 3) || theta != Shape{grid[0], dimensions, dimensions + 1} ||
      grid.back() != dimensions)
    fail("node '{}': AffineGrid of theta {} has no kernel", request.node.name,
         graph::to_string(theta));
  const Shape image(grid.begin() + 1, grid.end() - 1);
  const Shape ones(image.size(), 1);
  const Windows places =
      windows_of(request, image, image, ones, {ones, ones, Shape(image.size(), 0), {}});
  for (int d = 0; d < Windows::dimensions; ++d) sampling_.extents[d] = places.in[d];
  sampling_.dimensions = static_cast<int>(dimensions);
  sampling_.places = places.in_places();
  sampling_.aligns_corners = request.node.int_attribute("align_corners", 0) != 0;
}

DeformedConvolution::DeformedConvolution(const KernelRequest& request) {
  for (std::size_t i = 0; i < request.inputs.size(); ++i)
    if (request.inputs[i].present()) {
      require_float(request, i);
      if (request.inputs[i].type != request.inputs[0].type)
        fail_type(request, request.inputs[i].type);
    }
  const TensorView& in = request.inputs.at(0);
  const TensorView& weights = request.inputs.at(1);
  const TensorView& out = request.outputs.at(0);
  const Shape taps = places_of(weights);
  windows = windows_of(request, places_of(in), places_of(out), taps, slide_of(request, taps));
  dimensions = static_cast<int>(taps.size());
  images = in.shape[0];
  channels = in.shape[1];
  out_channels = out.shape[1];
  groups = request.node.int_attribute("group", 1);
  offset_groups = request.node.int_attribute("offset_group", 1);
  const auto elements_of = [&](std::size_t input, std::int64_t otherwise) {
    const bool is_there = request.inputs.size() > input && request.inputs[input].present();
    return is_there ? request.inputs[input].elements() : otherwise;
  };
  const std::int64_t of_taps = images * offset_groups * windows.tap_places() * windows.out_places();
  const bool fits = groups >= 1 && offset_groups >= 1 && weights.shape[1] * groups == channels &&
                    weights.shape[0] == out_channels && out_channels % groups == 0 &&
                    channels % offset_groups == 0 && elements_of(2, 0) == of_taps * dimensions &&
                    elements_of(3, out_channels) == out_channels &&
                    elements_of(4, of_taps) == of_taps;
  if (!fits)
    fail("node '{}': the offsets, weights and groups of DeformConv do not fit", request.node.name);
}

std::unique_ptr<Kernel> make_grid_sample(const KernelRequest& request) {
  return make_loops<GridSample>(request);
}
std::unique_ptr<Kernel> make_affine_grid(const KernelRequest& request) {
  return make_loops<AffineGrid>(request);
}
std::unique_ptr<Kernel> make_deform_conv(const KernelRequest& request) {
  return make_loops<DeformConv>(request);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
