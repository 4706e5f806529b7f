#pragma once

#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

/// What LRN says: channels [channel - before, channel + behind] are added up.
struct ResponseWindow {
  std::int64_t size;
  std::int64_t before = 0;
  std::int64_t behind = 0;
  double alpha;
  double beta;
  double bias;

  explicit ResponseWindow(const KernelRequest& request)
      : size(request.node.int_attribute("size", 0)),
        alpha(static_cast<double>(request.node.float_attribute("alpha", 1e-4F))),
        beta(static_cast<double>(request.node.float_attribute("beta", 0.75F))),
        bias(static_cast<double>(request.node.float_attribute("bias", 1.0F))) {
    require_type(request, request.inputs.at(0).type, AllFloats{});
    if (size < 1 || request.inputs[0].shape.size() < 2)
      fail("node '{}': LRN wants channels and a size of at least 1", request.node.name);
    before = (size - 1) / 2;
    behind = size / 2;
  }
};

}  // namespace autopar::runtime
