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

/// The channel of a pooled region that an output element belongs to, and its place.
struct PooledPlace {
  int x;
  int y;
  std::int64_t channel;
  std::int64_t region;

  AUTOPAR_ELEMENTWISE PooledPlace(const RegionSizes& sizes, std::int64_t i)
      : x(static_cast<int>(i % sizes.pooled_width)),
        y(static_cast<int>(i / sizes.pooled_width % sizes.pooled_height)),
        channel(i / sizes.pooled_width / sizes.pooled_height % sizes.channels),
        region(i / sizes.pooled_width / sizes.pooled_height / sizes.channels) {}
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

template <typename T>
struct RoiAlignElement {
  using W = Widened<T>;

  const T* in;                 ///< [images, channels, height, width]
  const T* rois;               ///< [regions, 4]: x1, y1, x2, y2
  const std::int64_t* images;  ///< [regions]
  T* out;                      ///< [regions, channels, pooled height, pooled width]
  RegionSizes sizes;
  int sampling_ratio;
  bool is_half_pixel;
  bool takes_max;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const PooledPlace place(sizes, i);
    const std::int64_t image = images[place.region];
    if (image < 0 || image >= sizes.images) return;
    const T* plane = in + (image * sizes.channels + place.channel) * sizes.height * sizes.width;
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
      out[i] = narrowed<T>(std::numeric_limits<W>::quiet_NaN());
      return;
    }
    W result = 0;
    bool is_first = true;
    for (int row = 0; row < rows; ++row) {
      const W y = top + static_cast<W>(place.y) * bin_height +
                  (static_cast<W>(row) + W(0.5)) * bin_height / static_cast<W>(rows);
      for (int column = 0; column < columns; ++column) {
        const W x = left + static_cast<W>(place.x) * bin_width +
                    (static_cast<W>(column) + W(0.5)) * bin_width / static_cast<W>(columns);
        take(plane, y, x, is_first, result);
        is_first = false;
      }
    }
    const int count = rows * columns;
    if (!takes_max && count > 1) result /= static_cast<W>(count);
    out[i] = narrowed<T>(result);
  }

 private:
  /// Along one side of a bin; -1 where that cannot be counted.
  AUTOPAR_ELEMENTWISE int samples(W bin) const {
    constexpr int most = 1 << 14;
    if (sampling_ratio > 0) return sampling_ratio;
    const W whole = std::ceil(bin);
    if (!(whole <= static_cast<W>(most))) return -1;
    return whole < 0 ? 0 : static_cast<int>(whole);
  }

  /// The largest share of a corner counts where a maximum is asked for, not their sum.
  AUTOPAR_ELEMENTWISE void take(const T* plane, W y, W x, bool is_first, W& result) const {
    const Between<W> down(y, sizes.height);
    const Between<W> across(x, sizes.width);
    W shares[4] = {};
    if (down.is_inside && across.is_inside) {
      const W to_top = 1 - down.to_high;
      const W to_left = 1 - across.to_high;
      const T* low = plane + std::int64_t{down.low} * sizes.width;
      const T* high = plane + std::int64_t{down.high} * sizes.width;
      shares[0] = to_top * to_left * widened(low[across.low]);
      shares[1] = to_top * across.to_high * widened(low[across.high]);
      shares[2] = down.to_high * to_left * widened(high[across.low]);
      shares[3] = down.to_high * across.to_high * widened(high[across.high]);
    }
    if (!takes_max) {
      result += shares[0] + shares[1] + shares[2] + shares[3];
      return;
    }
    for (int k = 0; k < 4; ++k)
      if ((is_first && k == 0) || shares[k] > result) result = shares[k];
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
    const PooledPlace place(sizes, i);
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
      loops.each(io.outputs[0].elements(),
                 RoiAlignElement<T>{io.inputs[0].as<const T>(), io.inputs[1].as<const T>(), images,
                                    io.outputs[0].as<T>(), sizes, sampling_ratio, is_half_pixel,
                                    takes_max});
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
