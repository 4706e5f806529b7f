#include "runtime/kernels/cpu/element_indices.h"

#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {

ElementIndices::ElementIndices(const KernelRequest& request)
    : node_(request.node.name),
      axis_(checked_axis(request, request.node.int_attribute("axis", 0),
                         request.inputs.at(0).shape.size())),
      extent_(request.inputs[0].shape[axis_]),
      strides_(row_major_strides(request.inputs[0].shape)),
      shape_(request.inputs.at(1).shape) {
  require_indices(request, 1);
}

std::int64_t ElementIndices::offset(const TensorView& indices, std::int64_t i) const {
  std::int64_t offset = checked_index(integer_at(indices, i), extent_, node_) * strides_[axis_];
  std::int64_t rest = i;
  for (std::size_t d = shape_.size(); d-- > 0; rest /= shape_[d])
    if (d != axis_) offset += rest % shape_[d] * strides_[d];
  return offset;
}

}  // namespace autopar::runtime::cpu
