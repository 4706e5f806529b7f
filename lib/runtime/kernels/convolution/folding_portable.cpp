// Col2Im, MaxUnpool, and ConvTranspose by its definition.

#include "base/error.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/folding.h"
#include "runtime/kernels/convolution/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

class Col2Im {
 public:
  using Served = Joined<Floats, Halves, Integers>;

  explicit Col2Im(const KernelRequest& request);

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    visit_type(out.type, Served{}, [&]<typename T>(T) {
      loops.each(out.elements(),
                 FoldedElement<T>{io.inputs[0].as<const T>(), nullptr, out.as<T>(), windows_, 1});
    });
  }

 private:
  Windows windows_;
};

Col2Im::Col2Im(const KernelRequest& request) {
  const TensorView& in = request.inputs.at(0);
  const TensorView& out = request.outputs.at(0);
  if (!visit_type(in.type, Served{}, [](auto) {})) fail_type(request, in.type);
  const Shape image = constant_integers(request, 1, "image_shape");
  const Shape taps = constant_integers(request, 2, "block_shape");
  const std::size_t spatial = image.size();
  const auto list = [&](const char* name, std::size_t entries, std::int64_t otherwise) {
    auto values = request.node.ints_attribute(name, std::vector<std::int64_t>(entries, otherwise));
    if (values.size() != entries)
      fail("node '{}': '{}' of Col2Im has {} entries, not {}", request.node.name, name,
           values.size(), entries);
    return values;
  };
  Slide slide{list("strides", spatial, 1), list("dilations", spatial, 1), {}, {}};
  const auto pads = list("pads", 2 * spatial, 0);
  slide.begin_pads.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial));
  Shape windows;
  bool fits = taps.size() == spatial && in.shape.size() == 3 && out.shape.size() == spatial + 2;
  for (std::size_t d = 0; fits && d < spatial; ++d) {
    const std::int64_t room =
        image[d] + pads[d] + pads[spatial + d] - ((taps[d] - 1) * slide.dilations[d] + 1);
    fits = slide.strides[d] >= 1 && slide.dilations[d] >= 1 && taps[d] >= 1 && room >= 0;
    if (fits) windows.push_back(room / slide.strides[d] + 1);
  }
  fits = fits && in.shape[2] == graph::num_elements(windows) &&
         in.shape[1] == out.shape[1] * graph::num_elements(taps);
  if (!fits) fail("node '{}': the blocks of Col2Im do not make its image", request.node.name);
  windows_ = windows_of(request, image, windows, taps, slide);
}

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

/// Puts an element where its index says, in a tensor of the extents that the windows tell; that
/// is the first part, along each dimension, of the output.
template <typename T>
struct UnpooledElement {
  const T* in;
  const std::int64_t* indices;
  T* out;
  std::int64_t planes;
  int inferred[Windows::dimensions];
  int extents[Windows::dimensions];

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t places = Windows::places(inferred);
    const std::int64_t index = indices[i];
    if (index < 0 || index >= planes * places) return;
    const Place place(index % places, inferred);
    std::int64_t at = index / places;
    for (int d = 0; d < Windows::dimensions; ++d) {
      if (place.at[d] >= extents[d]) return;
      at = at * extents[d] + place.at[d];
    }
    out[at] = in[i];
  }
};

class MaxUnpool {
 public:
  explicit MaxUnpool(const KernelRequest& request);

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    const std::int64_t n = io.inputs[0].elements();
    const auto* indices = io.inputs[1].as<const std::int64_t>();
    loops.check(n, UnpooledIndex{indices, planes_ * Windows::places(inferred_.in)});
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      loops.each(out.elements(), ZeroElement<T>{out.as<T>()});
      UnpooledElement<T> element{io.inputs[0].as<const T>(), indices, out.as<T>(), planes_, {}, {}};
      for (int d = 0; d < Windows::dimensions; ++d) {
        element.inferred[d] = inferred_.in[d];
        element.extents[d] = inferred_.out[d];
      }
      loops.each(n, element);
    });
  }

 private:
  Windows inferred_;  ///< its `in` are the places that indices count, its `out` those of the output
  std::int64_t planes_ = 0;
};

MaxUnpool::MaxUnpool(const KernelRequest& request) {
  const TensorView& in = request.inputs.at(0);
  if (!visit_type(in.type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, in.type);
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
    image.push_back((windows[d] - 1) * strides[d] - pads[d] - pads[spatial + d] + taps[d]);
  const Shape ones(spatial, 1);
  inferred_ = windows_of(request, image, places_of(request.outputs.at(0)), ones,
                         {ones, ones, Shape(spatial, 0), {}});
  planes_ = in.shape[0] * in.shape[1];
}

class ConvTranspose {
 public:
  explicit ConvTranspose(const KernelRequest& request) : convolution_(request) {}

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      loops.each(out.elements(), TransposedConvolutionElement<T>{
                                     io.inputs[0].as<const T>(), io.inputs[1].as<const T>(),
                                     convolution_.has_bias ? io.inputs[2].as<const T>() : nullptr,
                                     out.as<T>(), convolution_});
    });
  }

 private:
  TransposedConvolution convolution_;
};

std::unique_ptr<Kernel> make_conv_transpose_loops(const KernelRequest& request) {
  return make_loops<ConvTranspose>(request);
}

std::unique_ptr<Kernel> make_col2im(const KernelRequest& request) {
  return make_loops<Col2Im>(request);
}
std::unique_ptr<Kernel> make_max_unpool(const KernelRequest& request) {
  return make_loops<MaxUnpool>(request);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
