#include "runtime/kernels/movement/element_indices.h"

namespace autopar::runtime::cpu {

ElementIndices::ElementIndices(const KernelRequest& request)
    : node_(request.node.name), indexing_(element_indexing(request)) {}

std::int64_t ElementIndices::offset(const TensorView& indices, std::int64_t i) const {
  const auto& [axis, extent, strides, shape] = indexing_;
  std::int64_t offset = checked_index(integer_at(indices, i), extent, node_) * strides[axis];
  std::int64_t rest = i;
  for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
    if (d != axis) offset += rest % shape[d] * strides[d];
  return offset;
}

}  // namespace autopar::runtime::cpu
