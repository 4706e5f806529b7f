#include "runtime/kernels/common/kernel_arguments.h"

#include "runtime/device.h"

namespace autopar::runtime {

void fail_type(const KernelRequest& request, DataType type) {
  fail("node '{}': {} of {} has no {} kernel", request.node.name, qualified_op_type(request.node),
       name_of(type), request.device.kernels().device);
}

AxisExtents extents_around(const Shape& shape, std::size_t axis) {
  AxisExtents extents;
  for (std::size_t d = 0; d < axis; ++d) extents.outer *= shape[d];
  extents.extent = shape[axis];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) extents.inner *= shape[d];
  return extents;
}

AxisExtents extents_around_axis(const KernelRequest& request, const Shape& shape,
                                std::int64_t default_axis) {
  const std::int64_t axis = request.node.int_attribute("axis", default_axis);
  return extents_around(shape, checked_axis(request, axis, shape.size()));
}

int element_bytes_of(const KernelRequest& request, const TensorView& view) {
  const int bits = graph::bits_of(view.type);
  if (bits < 8) fail_type(request, view.type);
  return bits / 8;
}

std::size_t checked_axis(const KernelRequest& request, std::int64_t axis, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  if (axis < -dims || axis >= dims)
    fail("node '{}': axis {} of {} is outside a tensor of {} dimensions", request.node.name, axis,
         qualified_op_type(request.node), dims);
  return static_cast<std::size_t>(axis < 0 ? axis + dims : axis);
}

std::vector<std::int64_t> constant_integers(const KernelRequest& request, std::size_t input,
                                            const char* name, std::vector<std::int64_t> otherwise) {
  if (!is_given(request.inputs, input)) return otherwise;
  const TensorView& view = request.inputs[input];
  if (view.elements() == 0) return {};
  if (!request.is_constant(input))
    fail("node '{}': input '{}' of {} must be a constant", request.node.name, name,
         qualified_op_type(request.node));
  require_indices(request, input);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < view.elements(); ++i) values.push_back(integer_at(view, i));
  return values;
}

void require_indices(const KernelRequest& request, std::size_t input) {
  const DataType type = request.inputs.at(input).type;
  if (type != DataType::int32 && type != DataType::int64)
    fail("node '{}': input {} of {} must be int32 or int64, not {}", request.node.name, input,
         qualified_op_type(request.node), name_of(type));
}

std::int64_t checked_index(std::int64_t index, std::int64_t extent, const std::string& node) {
  if (index < -extent || index >= extent)
    fail("node '{}': index {} is out of range for {} elements", node, index, extent);
  return index < 0 ? index + extent : index;
}

}  // namespace autopar::runtime
