#include "runtime/kernels/reduction/cumsum.h"

#include "base/error.h"

namespace autopar::runtime {

CumSumArguments cumsum_arguments(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  const auto axes = constant_integers(request, 1, "axis");
  if (axes.size() != 1) fail("node '{}': {} has one axis", request.node.name, request.node.op_type);
  return {request.node.int_attribute("exclusive", 0) != 0,
          request.node.int_attribute("reverse", 0) != 0,
          extents_around(shape, checked_axis(request, axes.front(), shape.size()))};
}

}  // namespace autopar::runtime
