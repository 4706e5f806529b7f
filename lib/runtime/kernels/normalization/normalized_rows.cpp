#include "runtime/kernels/normalization/normalized_rows.h"

#include "base/error.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

NormalizedRows::NormalizedRows(const KernelRequest& request)
    : epsilon(request.node.float_attribute("epsilon", 1e-5F)) {
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, type);
  const Shape& shape = request.inputs[0].shape;
  const std::size_t axis =
      checked_axis(request, request.node.int_attribute("axis", -1), shape.size());
  for (std::size_t i = 0; i < axis; ++i) count *= shape[i];
  for (std::size_t i = axis; i < shape.size(); ++i) extent *= shape[i];
  for (std::size_t i = 1; i < request.inputs.size(); ++i) {
    if (request.inputs[i].present() && request.inputs[i].elements() != extent)
      fail("node '{}': {} wants a scale and bias that broadcast to its input", request.node.name,
           request.node.op_type);
  }
}

}  // namespace autopar::runtime
