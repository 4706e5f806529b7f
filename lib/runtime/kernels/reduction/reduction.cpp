#include "runtime/kernels/reduction/reduction.h"

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/strides.h"

namespace autopar::runtime {

namespace {

std::vector<bool> reduced_by_axes(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  std::vector<bool> reduced(shape.size(), false);
  std::vector<std::int64_t> axes;
  if (request.inputs.size() > 1 && request.inputs[1].present())
    axes = constant_integers(request, 1, "axes");
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
  const Shape strides = row_major_strides(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    (is_reduced[d] ? reduced_extents : kept_extents).push_back(shape[d]);
    (is_reduced[d] ? reduced_strides : kept_strides).push_back(strides[d]);
  }
  const auto merge = [](Shape& extents, std::vector<std::int64_t>& of_input) {
    std::vector<std::vector<std::int64_t>> lists{std::move(of_input)};
    merge_dimensions(extents, lists);
    of_input = std::move(lists.front());
  };
  merge(kept_extents, kept_strides);
  merge(reduced_extents, reduced_strides);
}

}  // namespace autopar::runtime
