#include "runtime/kernels/normalization/response_normalization.h"

#include "base/error.h"

namespace autopar::runtime {
namespace {

void require_float(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, type);
}

}  // namespace

ResponseWindow::ResponseWindow(const KernelRequest& request)
    : size(request.node.int_attribute("size", 0)),
      before((size - 1) / 2),
      behind(size / 2),
      alpha(static_cast<double>(request.node.float_attribute("alpha", 1e-4F))),
      beta(static_cast<double>(request.node.float_attribute("beta", 0.75F))),
      bias(static_cast<double>(request.node.float_attribute("bias", 1.0F))) {
  require_float(request);
  if (size < 1 || request.inputs[0].shape.size() < 2)
    fail("node '{}': LRN wants channels and a size of at least 1", request.node.name);
}

LpNormalization::LpNormalization(const KernelRequest& request) {
  require_float(request);
  const Shape& shape = request.inputs[0].shape;
  const std::int64_t p = request.node.int_attribute("p", 2);
  if (p != 1 && p != 2)
    fail("node '{}': LpNormalization has a p of 1 or 2, not {}", request.node.name, p);
  is_squared_ = p == 2;
  extents_ = extents_around(
      shape, checked_axis(request, request.node.int_attribute("axis", -1), shape.size()));
}

}  // namespace autopar::runtime
