#include "runtime/kernels/convolution/windows.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/error.h"

namespace autopar::runtime {
namespace {

/// How padding is divided between both ends of a dimension.
enum class Division { as_written, none, more_before, more_behind };

Division division_of(const KernelRequest& request) {
  const std::string auto_pad = request.node.string_attribute("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER") return Division::more_behind;
  if (auto_pad == "SAME_LOWER") return Division::more_before;
  return auto_pad == "VALID" ? Division::none : Division::as_written;
}

/// Windows over places of `seen`, one for each of `windows`. `extra` is padding that is divided
/// with the rest.
Slide slide_over(const KernelRequest& request, const Shape& taps, const Shape& seen,
                 const Shape& windows, Division division, const std::vector<std::int64_t>& extra) {
  const std::size_t spatial = taps.size();
  if (seen.size() != spatial)
    fail("node '{}': {} has a window of {} dimensions over {}", request.node.name,
         qualified_op_type(request.node), spatial, seen.size());
  Slide slide{spatial_list(request, "strides", spatial, 1),
              spatial_list(request, "dilations", spatial, 1),
              {},
              {}};
  const auto pads = spatial_list(request, "pads", 2 * spatial, 0);
  for (std::size_t i = 0; i < spatial; ++i) {
    if (slide.strides[i] < 1 || slide.dilations[i] < 1)
      fail("node '{}': {} wants strides and dilations of at least 1", request.node.name,
           qualified_op_type(request.node));
    const std::int64_t covered =
        (windows[i] - 1) * slide.strides[i] + (taps[i] - 1) * slide.dilations[i] + 1;
    const std::int64_t divided = std::max<std::int64_t>(0, covered - seen[i] + extra[i]);
    std::int64_t begin = pads[i];
    if (division == Division::none) begin = 0;
    if (division == Division::more_behind) begin = divided / 2;
    if (division == Division::more_before) begin = divided - divided / 2;
    slide.begin_pads.push_back(begin);
    slide.end_pads.push_back(covered - seen[i] - begin);
  }
  return slide;
}

}  // namespace

std::vector<std::int64_t> spatial_list(const KernelRequest& request, const char* name,
                                       std::size_t entries, std::int64_t otherwise) {
  auto list = request.node.ints_attribute(name, std::vector<std::int64_t>(entries, otherwise));
  if (list.size() != entries)
    fail("node '{}': '{}' of {} has {} entries, not {}", request.node.name, name,
         qualified_op_type(request.node), list.size(), entries);
  return list;
}

std::vector<std::int64_t> Slide::gaps() const {
  std::vector<std::int64_t> result = dilations;
  for (std::int64_t& gap : result) --gap;
  return result;
}

Shape places_of(const TensorView& images) {
  if (images.shape.size() < 2)
    fail("images have two dimensions at least, but this tensor is {}",
         graph::to_string(images.shape));
  return {images.shape.begin() + 2, images.shape.end()};
}

Slide slide_of(const KernelRequest& request, const Shape& taps) {
  return slide_over(request, taps, places_of(request.inputs.at(0)),
                    places_of(request.outputs.at(0)), division_of(request),
                    std::vector<std::int64_t>(taps.size(), 0));
}

Slide transposed_slide_of(const KernelRequest& request, const Shape& taps) {
  Division division = division_of(request);
  if (request.node.has_attribute("output_shape") && division != Division::more_behind)
    division = Division::more_before;
  return slide_over(request, taps, places_of(request.outputs.at(0)),
                    places_of(request.inputs.at(0)), division,
                    spatial_list(request, "output_padding", taps.size(), 0));
}

bool Windows::is_identity() const {
  for (int d = 0; d < dimensions; ++d)
    if (taps[d] != 1 || strides[d] != 1 || pads[d] != 0 || in[d] != out[d]) return false;
  return true;
}

Windows windows_of(const KernelRequest& request, const Shape& in, const Shape& out,
                   const Shape& taps, const Slide& slide) {
  const std::size_t spatial = in.size();
  if (spatial > Windows::dimensions)
    fail("node '{}': {} over {} spatial dimensions has no kernel", request.node.name,
         qualified_op_type(request.node), spatial);
  const auto narrow = [&](std::int64_t value) {
    if (value > std::numeric_limits<int>::max() || value < std::numeric_limits<int>::min())
      fail("node '{}': {} over {} places along a dimension has no kernel", request.node.name,
           qualified_op_type(request.node), value);
    return static_cast<int>(value);
  };
  narrow(graph::num_elements(in));
  narrow(graph::num_elements(out));
  Windows windows;
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::size_t to = Windows::dimensions - spatial + d;
    windows.in[to] = narrow(in[d]);
    windows.out[to] = narrow(out[d]);
    windows.taps[to] = narrow(taps[d]);
    windows.strides[to] = narrow(slide.strides[d]);
    windows.dilations[to] = narrow(slide.dilations[d]);
    windows.pads[to] = narrow(slide.begin_pads[d]);
    narrow(in[d] + slide.begin_pads[d]);
    // What windows reach must not wrap around.
    narrow((out[d] + 1) * slide.strides[d] + (taps[d] + 1) * slide.dilations[d]);
  }
  return windows;
}

Windows windows_of(const KernelRequest& request, const Shape& in, const Shape& out) {
  const Shape ones(in.size(), 1);
  return windows_of(request, in, out, ones, {ones, ones, Shape(in.size(), 0), {}});
}

}  // namespace autopar::runtime
