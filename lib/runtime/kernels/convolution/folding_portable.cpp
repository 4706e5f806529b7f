// Col2Im, MaxUnpool, and ConvTranspose by its definition.

#include "base/checked.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/folding.h"
#include "runtime/kernels/convolution/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

struct UnpooledIndex {
  const std::int64_t* indices;
  std::int64_t extent;
  AUTOPAR_ELEMENTWISE LookedUp operator()(std::int64_t i) const { return {indices[i], extent}; }
};

template <typename T>
struct ZeroElement {
  T* out;
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const { out[i] = T{}; }
};

/// Puts an element where its index says, in a tensor of the extents that the windows tell (`in` of
/// `places`); that is the first part, along each dimension, of the output (`out`).
template <typename T>
struct UnpooledElement {
  const T* in;                  ///< [planes, windows]
  const std::int64_t* indices;  ///< as in
  T* out;                       ///< [planes, places of the output]
  std::int64_t planes;
  Windows places;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t index = indices[i];
    if (index < 0 || index >= planes * places.in_places()) return;
    const Place place(index % places.in_places(), places.in);
    std::int64_t at = index / places.in_places();
    for (int d = 0; d < Windows::dimensions; ++d) {
      if (place.at[d] >= places.out[d]) return;
      at = at * places.out[d] + place.at[d];
    }
    out[at] = in[i];
  }
};

/// What FoldedElement makes of a plane, in the same order: a row of windows under a tap at a time.
template <typename T>
struct FoldedPlane {
  static constexpr bool vectorises = true;
  const T* columns;  ///< [planes, taps, windows]
  T* out;            ///< [planes, places]
  Windows windows;

  std::int64_t item_work() const { return windows.tap_places() * windows.out_places(); }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t plane) const {
    T* const image = out + plane * windows.in_places();
    for (std::int64_t i = 0; i < windows.in_places(); ++i) image[i] = T{0};
    const T* row = columns + plane * item_work();
    for (int i = 0; i < windows.taps[0]; ++i)
      for (int j = 0; j < windows.taps[1]; ++j)
        for (int k = 0; k < windows.taps[2]; ++k)
          for (int a = 0; a < windows.out[0]; ++a)
            for (int b = 0; b < windows.out[1]; ++b, row += windows.out[2]) {
              const int line = place_of(0, a, i);
              const int of_line = place_of(1, b, j);
              if (line >= 0 && of_line >= 0)
                add_row(row, image + (std::int64_t{line} * windows.in[1] + of_line) * windows.in[2],
                        k);
            }
  }

 private:
  /// Where the tap of a window lies along a dimension; -1 in the padding.
  AUTOPAR_ELEMENTWISE int place_of(int d, int window, int tap) const {
    const int place = window * windows.strides[d] + tap * windows.dilations[d] - windows.pads[d];
    return place < windows.in[d] ? place : -1;
  }
  AUTOPAR_ELEMENTWISE void add_row(const T* row, T* line, int tap) const {
    const int stride = windows.strides[2];
    const int begin = tap * windows.dilations[2] - windows.pads[2];  // of window 0
    const auto windows_before = [=, this](int place) {
      const int room = place - begin;
      const int count = room <= 0 ? 0 : (room - 1) / stride + 1;
      return count < windows.out[2] ? count : windows.out[2];
    };
    const int first = windows_before(0);
    const int last = windows_before(windows.in[2]);
    if (stride == 1)
      for (int c = first; c < last; ++c) line[begin + c] += row[c];
    else
      for (int c = first; c < last; ++c) line[begin + c * stride] += row[c];
  }
};

std::unique_ptr<Kernel> make_col2im(const KernelRequest& request) {
  const TensorView& in = request.inputs.at(0);
  const TensorView& out = request.outputs.at(0);
  const Shape image = constant_integers(request, 1, "image_shape");
  const Shape taps = constant_integers(request, 2, "block_shape");
  const std::size_t spatial = image.size();
  const auto pads = spatial_list(request, "pads", 2 * spatial, 0);
  const Slide slide{spatial_list(request, "strides", spatial, 1),
                    spatial_list(request, "dilations", spatial, 1),
                    {pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial)},
                    {}};
  Shape places;
  bool fits = taps.size() == spatial && in.shape.size() == 3 && out.shape.size() == spatial + 2;
  for (std::size_t d = 0; fits && d < spatial; ++d) {
    const std::int64_t reach =
        saturated_multiply(saturated_subtract(taps[d], 1), slide.dilations[d]);
    const std::int64_t room = saturated_subtract(image[d] + pads[d] + pads[spatial + d] - 1, reach);
    fits = slide.strides[d] >= 1 && slide.dilations[d] >= 1 && taps[d] >= 1 && room >= 0;
    if (fits) places.push_back(room / slide.strides[d] + 1);
  }
  fits = fits && in.shape[2] == graph::num_elements(places) &&
         in.shape[1] == out.shape[1] * graph::num_elements(taps);
  if (!fits) fail("node '{}': the blocks of Col2Im do not make its image", request.node.name);
  const Windows windows = windows_of(request, image, places, taps, slide);
  return kernel_for_type(request, in.type, AllNumbers{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      const T* columns = io.inputs[0].as<const T>();
      T* images = io.outputs[0].as<T>();
      const std::int64_t elements = io.outputs[0].elements();
      if constexpr (on_cpu && std::is_floating_point_v<T>)
        loops.each(elements / windows.in_places(), FoldedPlane<T>{columns, images, windows});
      else
        loops.each(elements, FoldedElement<T>{columns, nullptr, images, windows, 1});
    });
  });
}

std::unique_ptr<Kernel> make_max_unpool(const KernelRequest& request) {
  const TensorView& in = request.inputs.at(0);
  require_type(request, in.type, AllFloats{});
  if (request.inputs.at(1).type != DataType::int64 || request.inputs[1].elements() != in.elements())
    fail("node '{}': MaxUnpool wants an int64 index for each element", request.node.name);
  const Shape windows = places_of(in);
  const std::size_t spatial = windows.size();
  const Shape taps = request.node.ints_attribute("kernel_shape", {});
  const auto strides = request.node.ints_attribute("strides", Shape(spatial, 1));
  const auto pads = request.node.ints_attribute("pads", Shape(2 * spatial, 0));
  if (taps.size() != spatial || strides.size() != spatial || pads.size() != 2 * spatial)
    fail("node '{}': MaxUnpool wants windows over {} dimensions", request.node.name, spatial);
  Shape image;
  for (std::size_t d = 0; d < spatial; ++d)
    image.push_back(
        checked_multiply(windows[d] - 1, strides[d], "the extent of MaxUnpool's image") - pads[d] -
        pads[spatial + d] + taps[d]);
  const std::int64_t planes = in.shape[0] * in.shape[1];
  checked_multiply(checked_product(image, "the image of MaxUnpool"), planes,
                   "the images of MaxUnpool");
  const Windows places = windows_of(request, image, places_of(request.outputs.at(0)));
  return kernel_for_type(request, in.type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      const std::int64_t n = io.inputs[0].elements();
      const auto* indices = io.inputs[1].as<const std::int64_t>();
      T* out = io.outputs[0].as<T>();
      loops.check(n, UnpooledIndex{indices, planes * places.in_places()});
      loops.each(io.outputs[0].elements(), ZeroElement<T>{out});
      loops.each(n, UnpooledElement<T>{io.inputs[0].as<const T>(), indices, out, planes, places});
    });
  });
}

std::unique_ptr<Kernel> make_conv_transpose_loops(const KernelRequest& request) {
  const ConvolutionSizes sizes = transposed_convolution_sizes(request);
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(io.outputs[0].elements(),
                 TransposedConvolutionElement<T>{
                     io.inputs[0].as<const T>(), io.inputs[1].as<const T>(),
                     optional_data<const T>(io.inputs, 2), io.outputs[0].as<T>(), sizes});
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
