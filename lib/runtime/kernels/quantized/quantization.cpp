#include "runtime/kernels/quantized/quantization.h"

#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
namespace {

[[noreturn]] void fail_fit(const KernelRequest& request) {
  fail("node '{}': the scale of {}, {}, does not fit data {} along its axis", request.node.name,
       qualified_op_type(request.node), graph::to_string(request.inputs[1].shape),
       graph::to_string(request.inputs[0].shape));
}

/// The axis attribute; its default of 1 is 0 for a vector.
std::size_t quantization_axis(const KernelRequest& request, std::size_t rank) {
  return rank == 1 ? 0 : checked_axis(request, request.node.int_attribute("axis", 1), rank);
}

QuantizationLayout by_axis(const KernelRequest& request) {
  const Shape& data = request.inputs[0].shape;
  const std::size_t axis = quantization_axis(request, data.size());
  if (request.inputs[1].shape[0] != data[axis]) fail_fit(request);
  const AxisExtents extents = extents_around(data, axis);
  // Along the last axis the scales lie as the elements do.
  if (extents.inner == 1)
    return {.outer = extents.outer, .inner = extents.extent, .inner_stride = 1};
  return {
      .outer = extents.outer, .extent = extents.extent, .inner = extents.inner, .block_stride = 1};
}

QuantizationLayout by_blocks(const KernelRequest& request, std::int64_t block) {
  const Shape& data = request.inputs[0].shape;
  const Shape& scale = request.inputs[1].shape;
  if (scale.size() != data.size()) fail_fit(request);
  const std::size_t axis = quantization_axis(request, data.size());
  for (std::size_t d = 0; d < data.size(); ++d)
    if (scale[d] != (d == axis ? (data[d] + block - 1) / block : data[d])) fail_fit(request);
  const AxisExtents extents = extents_around(data, axis);
  const std::int64_t blocks = scale[axis];
  // Along the last axis a block is a row, if all are whole.
  if (extents.inner == 1 && extents.extent == blocks * block)
    return {.outer = extents.outer,
            .extent = blocks,
            .inner = block,
            .outer_stride = blocks,
            .block_stride = 1};
  return {.outer = extents.outer,
          .extent = extents.extent,
          .inner = extents.inner,
          .block = block,
          .outer_stride = blocks * extents.inner,
          .block_stride = extents.inner,
          .inner_stride = extents.inner == 1 ? 0 : 1};
}

}  // namespace

QuantizationLayout quantization_layout(const KernelRequest& request) {
  const TensorView& data = request.inputs.at(0);
  const TensorView& scale = request.inputs.at(1);
  if (is_given(request.inputs, 2) && request.inputs[2].elements() != scale.elements())
    fail("node '{}': the zero point of {} has another shape than the scale", request.node.name,
         qualified_op_type(request.node));
  if (scale.elements() == 1) return {.inner = data.elements()};
  const std::int64_t block = request.node.int_attribute("block_size", 0);
  if (block < 0 || data.shape.empty()) fail_fit(request);
  if (block > 0) return by_blocks(request, block);
  if (scale.shape.size() != 1) fail_fit(request);
  return by_axis(request);
}

DataType division_type(const KernelRequest& request) {
  const auto given = static_cast<DataType>(request.node.int_attribute("precision", 0));
  return given == DataType::undefined ? request.inputs.at(1).type : given;
}

}  // namespace autopar::runtime
