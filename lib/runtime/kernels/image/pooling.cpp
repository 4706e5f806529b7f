#include "runtime/kernels/image/pooling.h"

#include "base/error.h"

namespace autopar::runtime {
namespace {

/// Without kernel_shape a window is the whole image: so do poolings that are global.
Shape taps_of(const KernelRequest& request) {
  const Shape image = places_of(request.inputs.at(0));
  const Shape taps = request.node.ints_attribute("kernel_shape", image);
  for (const std::int64_t extent : taps)
    if (extent < 1 && request.outputs.at(0).elements() > 0)
      fail("node '{}': {} wants windows of at least one element", request.node.name,
           qualified_op_type(request.node));
  return taps;
}

}  // namespace

Pooling::Pooling(const KernelRequest& request) : taps(taps_of(request)) {
  slide = slide_of(request, taps);
  const Shape in = places_of(request.inputs[0]);
  const Shape out = places_of(request.outputs[0]);
  windows = windows_of(request, in, out, taps, slide);
  const std::size_t spatial = in.size();
  const std::string auto_pad = request.node.string_attribute("auto_pad", "NOTSET");
  const bool is_automatic = !auto_pad.empty() && auto_pad != "NOTSET";
  const auto pads = request.node.ints_attribute("pads", std::vector<std::int64_t>(2 * spatial, 0));
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::size_t at = Windows::dimensions - spatial + d;
    padded_ends[at] =
        static_cast<int>(in[d] + (is_automatic ? slide.end_pads[d] : pads[spatial + d]));
  }
  for (int d = 0; d < Windows::dimensions; ++d) {
    // The windows that may see nothing are the first ones and the last ones.
    for (int place = 0; place < windows.out[d]; ++place) {
      Place at(0, Windows().out);
      at.at[d] = place;
      const TapsInside inside(windows, at);
      sees_image = sees_image && inside.first[d] < inside.last[d];
    }
  }
}

}  // namespace autopar::runtime
