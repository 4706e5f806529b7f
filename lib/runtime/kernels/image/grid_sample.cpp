#include "runtime/kernels/image/grid_sample.h"

#include <map>
#include <string>

#include "base/error.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/convolution/convolution.h"

namespace autopar::runtime {
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

}  // namespace autopar::runtime
