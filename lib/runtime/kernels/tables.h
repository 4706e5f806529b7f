#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

/// The families' tables, a line an operator, for all devices: FAMILY/table.cpp, which is compiled
/// for each device, with its own factories. The collectives' table, whose factories all devices
/// share, stands beside their kernels.
namespace autopar::runtime {

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

using FamilyTable = std::span<const OperatorLine>();

FamilyTable collective_operators;

namespace AUTOPAR_DEVICE {

/// What each device serves, without a reference from CUDA's plugin to the CPU's kernels.
consteval OperatorLine::Served served(ServesNode by_cpu, ServesNode by_cuda) {
  return {on_cpu ? by_cpu : nullptr, by_cuda};
}

FamilyTable attention_operators, control_operators, convolution_operators, elementwise_operators;
FamilyTable fourier_operators, generator_operators, image_operators, movement_operators,
    normalization_operators;
FamilyTable own_operators, product_operators, quantized_operators, recurrent_operators;
FamilyTable reduction_operators;

/// The entries of a device's KernelTable, of all families. Factories are there only for the device
/// that the tables are compiled for.
std::vector<KernelEntry> all_entries(OperatorLine::Devices device);

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
