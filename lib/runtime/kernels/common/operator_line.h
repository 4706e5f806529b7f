#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// One operator in its family's table, which is compiled for each device (kernels/tables.h).
struct OperatorLine {
  /// KernelEntry::serves, known where no GPU is, too.
  struct Served {
    ServesNode by_cpu = nullptr;
    ServesNode by_cuda = nullptr;
  };
  enum class Devices { all, cpu, cuda };

  std::string_view domain;
  std::string_view op_type;
  KernelFactory make = nullptr;  ///< of the device that the table is compiled for
  bool is_view = false;
  Served served = {};
  Devices devices = Devices::all;
};

namespace AUTOPAR_DEVICE {

/// What each device serves, without a reference from CUDA's plugin to the CPU's kernels.
consteval OperatorLine::Served served(ServesNode by_cpu, ServesNode by_cuda) {
  return {on_cpu ? by_cpu : nullptr, by_cuda};
}

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
