// GridSample and AffineGrid.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/sampled_points.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

struct Sampling {
  Interpolation mode = Interpolation::linear;
  Outside outside = Outside::zeros;
  bool aligns_corners = false;
  int dimensions = 2;
  Windows image;  ///< its `in` are the places of an image
  std::int64_t channels = 0;
  std::int64_t places = 0;  ///< of an image of the output

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

/// Where GridSample reads.
template <typename T>
struct SampledGrid {
  using W = Widened<T>;

  const T* in;     ///< [images, channels, places]
  AnyFloats grid;  ///< [images, out places, dimensions]
  T* out;          ///< [images, channels, out places]
  Sampling sampling;

  /// For place `i` of all images.
  AUTOPAR_ELEMENTWISE SampledPoint<W> point(std::int64_t i) const {
    const auto along = [&](int d) {
      const int absent = Windows::dimensions - sampling.dimensions;
      if (d < absent) return alone<W>();
      // The last dimension comes first in the grid.
      const std::int64_t at = i * sampling.dimensions + (Windows::dimensions - 1 - d);
      return sampling.neighbours<W>(d, static_cast<W>(grid.at(at)));
    };
    return {{along(0), along(1), along(2)}};
  }
  AUTOPAR_ELEMENTWISE const T* plane(std::int64_t image, std::int64_t channel) const {
    return in + (image * sampling.channels + channel) * sampling.image.in_places();
  }
  AUTOPAR_ELEMENTWISE T* sampled(std::int64_t image, std::int64_t channel) const {
    return out + (image * sampling.channels + channel) * sampling.places;
  }
};

/// All channels of one place.
template <typename T>
struct GridSampleElement {
  SampledGrid<T> of;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t image = i / of.sampling.places;
    const auto point = of.point(i);
    for (std::int64_t c = 0; c < of.sampling.channels; ++c)
      of.sampled(image, c)[i % of.sampling.places] =
          narrowed<T>(point.of(of.plane(image, c), of.sampling.image.in));
  }
};

/// All channels of some places that follow one another.
template <typename T>
struct GridSampleTile {
  static constexpr bool vectorises = true;
  using Tile = SampledTile<Widened<T>>;
  SampledGrid<T> of;

  std::int64_t tiles() const { return Tile::tiles(of.sampling.places); }
  std::int64_t item_work() const { return Tile::most_places * 8 * of.sampling.channels; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t image = i / tiles();
    const std::int64_t first = i % tiles() * Tile::most_places;
    const std::int64_t end = std::min<std::int64_t>(first + Tile::most_places, of.sampling.places);
    Tile tile;
    for (std::int64_t place = first; place < end; ++place)
      tile.add(of.point(image * of.sampling.places + place), of.sampling.image.in, 1);
    for (std::int64_t c = 0; c < of.sampling.channels; ++c)
      tile.read(of.plane(image, c), of.sampled(image, c) + first);
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
      const SampledGrid<T> of{io.inputs[0].as<const T>(), AnyFloats(io.inputs[1]), to.as<T>(),
                              sampling};
      if constexpr (on_cpu)
        if (sampling.mode != Interpolation::cubic) {
          const GridSampleTile<T> tile{of};
          return loops.each(to.shape[0] * tile.tiles(), tile);
        }
      loops.each(to.shape[0] * sampling.places, GridSampleElement<T>{of});
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

}  // namespace autopar::runtime::AUTOPAR_DEVICE
