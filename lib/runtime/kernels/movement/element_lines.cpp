#include "runtime/kernels/movement/element_lines.h"

namespace autopar::runtime::cpu {

ElementLines::ElementLines(const ElementIndexing& indexing)
    : along(indexing.shape[indexing.axis]),
      extent(indexing.extent),
      step(indexing.strides[indexing.axis]) {
  const Shape& shape = indexing.shape;
  const auto axis = static_cast<std::ptrdiff_t>(indexing.axis);
  outer_shape.assign(shape.begin(), shape.begin() + axis);
  outer_strides.assign(indexing.strides.begin(), indexing.strides.begin() + axis);
  inner_shape.assign(shape.begin() + axis + 1, shape.end());
  inner_strides.assign(indexing.strides.begin() + axis + 1, indexing.strides.end());
  outer = graph::num_elements(outer_shape);
  inner = graph::num_elements(inner_shape);
  is_inner_whole = inner == step;
}

void ElementLines::check(const TensorView& indices, const std::string& node) const {
  with_integers(indices, [&]<typename Index>(const Index* all) {
    Index least = 0;
    Index most = 0;
    for (std::int64_t i = 0; i < count(); ++i) {
      least = std::min(least, all[i]);
      most = std::max(most, all[i]);
    }
    if (count() == 0 || (least >= -extent && most < extent && extent > 0)) return;
    for (std::int64_t i = 0; i < count(); ++i) checked_index(all[i], extent, node);
  });
}

}  // namespace autopar::runtime::cpu
