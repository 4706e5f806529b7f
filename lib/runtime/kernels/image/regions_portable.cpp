// RoiAlign and MaxRoiPool: regions of images as images of one size.

#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/image/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Images and the size that regions get.
struct RegionSizes {
  std::int64_t images = 0;
  std::int64_t channels = 0;
  std::int64_t regions = 0;
  int height = 0;
  int width = 0;
  int pooled_height = 0;
  int pooled_width = 0;
  double scale = 1;  ///< from coordinates of regions to places of images
};

/// The channel of a pooled region that an item belongs to, or the block of channels, of which there
/// are as many as `channels`; and its place.
struct PooledPlace {
  int x;
  int y;
  std::int64_t channel;
  std::int64_t region;

  AUTOPAR_ELEMENTWISE PooledPlace(const RegionSizes& sizes, std::int64_t i, std::int64_t channels)
      : x(static_cast<int>(i % sizes.pooled_width)),
        y(static_cast<int>(i / sizes.pooled_width % sizes.pooled_height)),
        channel(i / sizes.pooled_width / sizes.pooled_height % channels),
        region(i / sizes.pooled_width / sizes.pooled_height / channels) {}
};

/// Where a coordinate lies between two places.
template <typename W>
struct Between {
  int low = 0;
  int high = 0;
  W to_high = 0;
  bool is_inside = false;

  AUTOPAR_ELEMENTWISE Between(W at, int extent) {
    is_inside = at >= -1 && at <= static_cast<W>(extent);
    if (!is_inside) return;
    if (at < 0) at = 0;
    low = static_cast<int>(at);
    if (low >= extent - 1) {
      low = high = extent - 1;
    } else {
      high = low + 1;
      to_high = at - static_cast<W>(low);
    }
  }
};

/// What a coordinate pair of an image is read as: four of a channel's elements and their shares.
template <typename W>
struct Corners {
  std::int64_t offsets[4] = {};
  W shares[4] = {};
  bool is_inside = false;

  AUTOPAR_ELEMENTWISE Corners(W y, W x, int height, int width) {
    const Between<W> down(y, height);
    const Between<W> across(x, width);
    is_inside = down.is_inside && across.is_inside;
    if (!is_inside) return;
    const W to_top = 1 - down.to_high;
    const W to_left = 1 - across.to_high;
    const std::int64_t low = std::int64_t{down.low} * width;
    const std::int64_t high = std::int64_t{down.high} * width;
    set(0, low + across.low, to_top * to_left);
    set(1, low + across.high, to_top * across.to_high);
    set(2, high + across.low, down.to_high * to_left);
    set(3, high + across.high, down.to_high * across.to_high);
  }

 private:
  AUTOPAR_ELEMENTWISE void set(int corner, std::int64_t offset, W share) {
    offsets[corner] = offset;
    shares[corner] = share;
  }
};

/// One place of pooled regions, of some channels that have the same samples.
template <typename T>
struct RoiAlignPlace {
  static constexpr bool vectorises = true;
  static constexpr std::int64_t together = on_cpu ? 16 : 1;
  using W = Widened<T>;

  const T* in;                 ///< [images, channels, height, width]
  const T* rois;               ///< [regions, 4]: x1, y1, x2, y2
  const std::int64_t* images;  ///< [regions]
  T* out;                      ///< [regions, channels, pooled height, pooled width]
  RegionSizes sizes;
  int sampling_ratio;
  bool is_half_pixel;
  bool takes_max;

  AUTOPAR_ELEMENTWISE std::int64_t blocks() const {
    return (sizes.channels + together - 1) / together;
  }
  std::int64_t items() const {
    return sizes.regions * blocks() * sizes.pooled_height * sizes.pooled_width;
  }
  std::int64_t item_work() const { return 16 * together; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const PooledPlace place(sizes, i, blocks());
    const std::int64_t image = images[place.region];
    if (image < 0 || image >= sizes.images) return;
    const std::int64_t first = place.channel * together;
    const std::int64_t rest = sizes.channels - first;
    const std::int64_t channels = rest < together ? rest : together;
    const std::int64_t plane = std::int64_t{sizes.height} * sizes.width;
    W results[together] = {};
    pool(place, in + (image * sizes.channels + first) * plane, channels, results);
    const std::int64_t pooled = std::int64_t{sizes.pooled_height} * sizes.pooled_width;
    T* to = out + (place.region * sizes.channels + first) * pooled + place.y * sizes.pooled_width +
            place.x;
    for (std::int64_t c = 0; c < channels; ++c) to[c * pooled] = narrowed<T>(results[c]);
  }

 private:
  /// `planes`: the first of the channels.
  AUTOPAR_ELEMENTWISE void pool(const PooledPlace& place, const T* planes, std::int64_t channels,
                                W* results) const {
    const W offset = is_half_pixel ? W(0.5) : W(0);
    const auto corner = [&](int k) {
      return widened(rois[place.region * 4 + k]) * static_cast<W>(sizes.scale) - offset;
    };
    const W left = corner(0);
    const W top = corner(1);
    W width = corner(2) - left;
    W height = corner(3) - top;
    if (!is_half_pixel) {
      width = width < 1 ? W(1) : width;
      height = height < 1 ? W(1) : height;
    }
    const W bin_width = width / static_cast<W>(sizes.pooled_width);
    const W bin_height = height / static_cast<W>(sizes.pooled_height);
    const int columns = samples(bin_width);
    const int rows = samples(bin_height);
    if (columns < 0 || rows < 0) {
      for (std::int64_t c = 0; c < channels; ++c) results[c] = std::numeric_limits<W>::quiet_NaN();
      return;
    }
    for (int row = 0; row < rows; ++row) {
      const W y = top + static_cast<W>(place.y) * bin_height +
                  (static_cast<W>(row) + W(0.5)) * bin_height / static_cast<W>(rows);
      for (int column = 0; column < columns; ++column) {
        const W x = left + static_cast<W>(place.x) * bin_width +
                    (static_cast<W>(column) + W(0.5)) * bin_width / static_cast<W>(columns);
        const Corners<W> corners(y, x, sizes.height, sizes.width);
        take(corners, planes, channels, row == 0 && column == 0, results);
      }
    }
    const int count = rows * columns;
    if (!takes_max && count > 1)
      for (std::int64_t c = 0; c < channels; ++c) results[c] /= static_cast<W>(count);
  }

  /// Along one side of a bin; -1 where that cannot be counted.
  AUTOPAR_ELEMENTWISE int samples(W bin) const {
    constexpr int most = 1 << 14;
    if (sampling_ratio > 0) return sampling_ratio;
    const W whole = std::ceil(bin);
    if (!(whole <= static_cast<W>(most))) return -1;
    return whole < 0 ? 0 : static_cast<int>(whole);
  }

  /// The largest share of a corner counts where a maximum is asked for, not their sum.
  AUTOPAR_ELEMENTWISE void take(const Corners<W>& corners, const T* planes, std::int64_t channels,
                                bool is_first, W* results) const {
    if (!takes_max && !corners.is_inside) return;
    const std::int64_t plane = std::int64_t{sizes.height} * sizes.width;
    for (std::int64_t c = 0; c < channels; ++c) {
      const T* seen = planes + c * plane;
      W shares[4];
      for (int k = 0; k < 4; ++k)
        shares[k] =
            corners.is_inside ? corners.shares[k] * widened(seen[corners.offsets[k]]) : W(0);
      if (!takes_max) {
        results[c] += shares[0] + shares[1] + shares[2] + shares[3];
        continue;
      }
      for (int k = 0; k < 4; ++k)
        if ((is_first && k == 0) || shares[k] > results[c]) results[c] = shares[k];
    }
  }
};

struct RoiImage {
  const std::int64_t* indices;
  std::int64_t images;
  AUTOPAR_ELEMENTWISE LookedUp operator()(std::int64_t i) const { return {indices[i], images}; }
};

/// The image that a region [image, x1, y1, x2, y2] belongs to.
template <typename T>
struct PooledImage {
  const T* rois;
  std::int64_t images;
  AUTOPAR_ELEMENTWISE LookedUp operator()(std::int64_t i) const {
    const auto image = widened(rois[i * 5]);
    // No cast of what is no number, or none that fits.
    const bool is_index = image >= 0 && image < 1e9;
    return {is_index ? static_cast<std::int64_t>(image) : -1, images};
  }
};

/// The largest of what lies in a bin; 0 where nothing does.
template <typename T>
struct RoiPoolElement {
  using W = Widened<T>;

  const T* in;    ///< [images, channels, height, width]
  const T* rois;  ///< [regions, 5]: image, x1, y1, x2, y2
  T* out;         ///< [regions, channels, pooled height, pooled width]
  RegionSizes sizes;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const PooledPlace place(sizes, i, sizes.channels);
    const T* roi = rois + place.region * 5;
    const std::int64_t image = PooledImage<T>{rois, sizes.images}(place.region).index;
    if (image < 0 || image >= sizes.images) return;
    const T* plane = in + (image * sizes.channels + place.channel) * sizes.height * sizes.width;
    const Bin rows(rounded(roi[2]), rounded(roi[4]), place.y, sizes.pooled_height, sizes.height);
    const Bin columns(rounded(roi[1]), rounded(roi[3]), place.x, sizes.pooled_width, sizes.width);
    const T* largest = nullptr;
    for (int row = rows.begin; row < rows.end; ++row)
      for (int column = columns.begin; column < columns.end; ++column) {
        const T* element = plane + std::int64_t{row} * sizes.width + column;
        if (largest == nullptr || widened(*element) > widened(*largest)) largest = element;
      }
    out[i] = largest == nullptr ? T{} : *largest;
  }

 private:
  AUTOPAR_ELEMENTWISE W rounded(T corner) const {
    return static_cast<W>(std::round(widened(corner) * static_cast<W>(sizes.scale)));
  }

  /// Places along one dimension.
  struct Bin {
    int begin;
    int end;

    AUTOPAR_ELEMENTWISE Bin(W first, W last, int bin, int bins, int extent) {
      W size = last - first + 1;
      size = size < 1 ? W(1) : size;
      const W step = size / static_cast<W>(bins);
      begin = clamped(static_cast<W>(std::floor(static_cast<W>(bin) * step)) + first, extent);
      end = clamped(static_cast<W>(std::ceil(static_cast<W>(bin + 1) * step)) + first, extent);
    }
    AUTOPAR_ELEMENTWISE static int clamped(W at, int extent) {
      if (!(at > 0)) return 0;
      return at < static_cast<W>(extent) ? static_cast<int>(at) : extent;
    }
  };
};

namespace {

/// `numbers` is how many a region is told by.
RegionSizes region_sizes_of(const KernelRequest& request, std::int64_t numbers) {
  const TensorView& in = request.inputs.at(0);
  const TensorView& rois = request.inputs.at(1);
  const Shape& out = request.outputs.at(0).shape;
  require_type(request, in.type, AllFloats{});
  if (rois.type != in.type) fail_type(request, rois.type);
  const bool fits = in.shape.size() == 4 && out.size() == 4 && rois.shape.size() == 2 &&
                    rois.shape[1] == numbers && rois.shape[0] == out[0] && in.shape[1] == out[1] &&
                    (in.elements() > 0 || request.outputs[0].elements() == 0);
  if (!fits)
    fail("node '{}': {} wants images of two dimensions and {} numbers a region", request.node.name,
         request.node.op_type, numbers);
  return {.images = in.shape[0],
          .channels = in.shape[1],
          .regions = rois.shape[0],
          .height = static_cast<int>(in.shape[2]),
          .width = static_cast<int>(in.shape[3]),
          .pooled_height = static_cast<int>(out[2]),
          .pooled_width = static_cast<int>(out[3]),
          .scale = static_cast<double>(request.node.float_attribute("spatial_scale", 1.0F))};
}

}  // namespace

std::unique_ptr<Kernel> make_roi_align(const KernelRequest& request) {
  const RegionSizes sizes = region_sizes_of(request, 4);
  constexpr std::int64_t most_samples = 1 << 12;  // along one side of a bin
  const std::int64_t samples = request.node.int_attribute("sampling_ratio", 0);
  if (samples < 0 || samples > most_samples)
    fail("node '{}': RoiAlign takes no {} samples along a side of a bin", request.node.name,
         samples);
  const auto sampling_ratio = static_cast<int>(samples);
  const bool is_half_pixel =
      named_attribute<bool>(request, "coordinate_transformation_mode", "half_pixel",
                            {{"half_pixel", true}, {"output_half_pixel", false}});
  const bool takes_max =
      named_attribute<bool>(request, "mode", "avg", {{"max", true}, {"avg", false}});
  if (request.inputs.at(2).type != DataType::int64 || request.inputs[2].elements() != sizes.regions)
    fail("node '{}': RoiAlign wants an int64 index of its image for each region",
         request.node.name);
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      const auto* images = io.inputs[2].as<const std::int64_t>();
      if (io.outputs[0].elements() == 0) return;
      loops.check(sizes.regions, RoiImage{images, sizes.images});
      const RoiAlignPlace<T> places{io.inputs[0].as<const T>(),
                                    io.inputs[1].as<const T>(),
                                    images,
                                    io.outputs[0].as<T>(),
                                    sizes,
                                    sampling_ratio,
                                    is_half_pixel,
                                    takes_max};
      loops.each(places.items(), places);
    });
  });
}

std::unique_ptr<Kernel> make_max_roi_pool(const KernelRequest& request) {
  const RegionSizes sizes = region_sizes_of(request, 5);
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      const T* rois = io.inputs[1].as<const T>();
      if (io.outputs[0].elements() == 0) return;
      loops.check(sizes.regions, PooledImage<T>{rois, sizes.images});
      loops.each(io.outputs[0].elements(),
                 RoiPoolElement<T>{io.inputs[0].as<const T>(), rois, io.outputs[0].as<T>(), sizes});
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
