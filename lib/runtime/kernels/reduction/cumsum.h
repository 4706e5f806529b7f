#pragma once

#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

/// What CumSum and CumProd say, for all devices.
struct CumSumArguments {
  bool exclusive = false;
  bool reverse = false;
  AxisExtents extents;  ///< of the input around the axis
};
CumSumArguments cumsum_arguments(const KernelRequest& request);

}  // namespace autopar::runtime
