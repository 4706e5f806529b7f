#include <utility>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/normalization/kernels.h"

namespace autopar::runtime::cuda {

std::optional<MaskLayout> mask_layout(std::span<const TensorView> inputs) {
  const TensorView& mask = inputs[1];
  if (mask.type != DataType::boolean && mask.type != inputs[0].type) return std::nullopt;
  Shape shape = inputs[0].shape;
  std::vector<std::int64_t> strides = broadcast_strides(mask.shape, shape);
  if (strides.empty()) return std::nullopt;
  const std::int64_t column_stride = strides.back();
  shape.pop_back();
  strides.pop_back();
  merge_dimensions(shape, {&strides});
  if (shape.size() > MaskLayout::max_dimensions) return std::nullopt;
  return MaskLayout{std::move(shape), std::move(strides), column_stride};
}

bool serves_masked_softmax(const graph::Node&, std::span<const TensorView> inputs,
                           std::span<const TensorView>) {
  return !is_given(inputs, 1) || mask_layout(inputs).has_value();
}

}  // namespace autopar::runtime::cuda
