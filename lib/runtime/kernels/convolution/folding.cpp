#include "runtime/kernels/convolution/folding.h"

#include "base/error.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

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

TransposedConvolution::TransposedConvolution(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, type);
  const Convolution convolution = transposed_convolution_of(request);
  const TensorView& in = request.inputs[0];
  const TensorView& out = request.outputs[0];
  windows = windows_of(request, places_of(out), places_of(in), places_of(request.inputs[1]),
                       convolution.slide);
  images = in.shape[0];
  channels = in.shape[1];
  out_channels = out.shape[1];
  groups = convolution.groups;
  has_bias = convolution.has_bias;
}

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

}  // namespace autopar::runtime
