#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/movement/data_movement.h"

namespace autopar::runtime {

std::unique_ptr<Kernel> make_compress(const KernelRequest& request) {
  const TensorView& data = request.inputs.at(0);
  const TensorView& condition = request.inputs.at(1);
  if (!request.is_constant(1) || condition.type != DataType::boolean)
    fail("node '{}': the condition of Compress must be constant bools", request.node.name);
  const bool is_flat = !request.node.has_attribute("axis");
  const Shape shape = is_flat ? Shape{data.elements()} : data.shape;
  const std::size_t axis =
      checked_axis(request, request.node.int_attribute("axis", 0), shape.size());
  std::vector<std::int64_t> kept;
  for (std::int64_t i = 0; i < condition.elements(); ++i)
    if (condition.as<const std::uint8_t>()[i] != 0) kept.push_back(i);
  const auto count = static_cast<std::int64_t>(kept.size());
  if (count != request.outputs.at(0).shape[axis] || condition.elements() > shape[axis])
    fail("node '{}': the condition of Compress does not fit the data", request.node.name);
  Composite composite(request);
  composite.add("", "Gather", {{"axis", static_cast<std::int64_t>(axis)}},
                {Composite::reshaped(composite.input(0), shape),
                 composite.constant(graph::Tensor::of_int64({count}, kept))},
                {composite.output(0)});
  return composite.finish();
}

}  // namespace autopar::runtime
