#include "runtime/kernels/reduction/reduction.h"

#include <algorithm>

#include "runtime/device.h"

namespace autopar::runtime {

namespace {

std::vector<bool> reduced_by_axes(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  std::vector<bool> reduced(shape.size(), false);
  const auto axes = constant_integers(request, 1, "axes");
  for (const std::int64_t axis : axes) reduced[checked_axis(request, axis, shape.size())] = true;
  const bool noop = request.node.int_attribute("noop_with_empty_axes", 0) != 0;
  if (axes.empty() && !noop) reduced.assign(shape.size(), true);
  return reduced;
}

}  // namespace

ReducedDimensions::ReducedDimensions(const KernelRequest& request)
    : ReducedDimensions(request.inputs.at(0).shape, reduced_by_axes(request)) {}

ReducedDimensions ReducedDimensions::of_images(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  std::vector<bool> reduced(shape.size(), true);
  for (std::size_t d = 0; d < 2 && d < reduced.size(); ++d) reduced[d] = false;
  return {shape, reduced};
}

ReducedDimensions::ReducedDimensions(const Shape& shape, const std::vector<bool>& is_reduced) {
  const StridedShape all(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    StridedShape& part = is_reduced[d] ? reduced : kept;
    part.dims.push_back(all.dims[d]);
    part.strides.push_back(all.strides[d]);
  }
  merge_dimensions(kept.dims, {&kept.strides});
  merge_dimensions(reduced.dims, {&reduced.strides});
}

ReducedSpace::ReducedSpace(const KernelRequest& request, const StridedShape& from)
    : dimensions(static_cast<int>(from.dims.size())) {
  if (from.dims.size() > max_dimensions)
    fail("node '{}': {} over dimensions that alternate {} times has no {} kernel",
         request.node.name, request.node.op_type, from.dims.size(),
         request.device.kernels().device);
  std::ranges::copy(from.dims, extents);
  std::ranges::copy(from.strides, strides);
}

CumSumArguments cumsum_arguments(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  const auto axes = constant_integers(request, 1, "axis");
  if (axes.size() != 1) fail("node '{}': {} has one axis", request.node.name, request.node.op_type);
  return {request.node.int_attribute("exclusive", 0) != 0,
          request.node.int_attribute("reverse", 0) != 0,
          extents_around(shape, checked_axis(request, axes.front(), shape.size()))};
}

}  // namespace autopar::runtime
