#pragma once

#include <span>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

/// The families' tables, FAMILY/table.cpp: a line an operator, for all devices. They are compiled
/// for each device, with its own factories.
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

namespace AUTOPAR_DEVICE {

/// What each device serves, without a reference from CUDA's plugin to the CPU's kernels.
consteval OperatorLine::Served served(ServesNode by_cpu, ServesNode by_cuda) {
  return {on_cpu ? by_cpu : nullptr, by_cuda};
}

std::span<const OperatorLine> attention_operators();
std::span<const OperatorLine> collective_operators();
std::span<const OperatorLine> control_operators();
std::span<const OperatorLine> convolution_operators();
std::span<const OperatorLine> elementwise_operators();
std::span<const OperatorLine> fourier_operators();
std::span<const OperatorLine> generator_operators();
std::span<const OperatorLine> image_operators();
std::span<const OperatorLine> movement_operators();
std::span<const OperatorLine> normalization_operators();
std::span<const OperatorLine> own_operators();
std::span<const OperatorLine> product_operators();
std::span<const OperatorLine> quantized_operators();
std::span<const OperatorLine> recurrent_operators();
std::span<const OperatorLine> reduction_operators();

/// The entries of a device's KernelTable, of all families. Factories are there only for the device
/// that the tables are compiled for.
std::vector<KernelEntry> all_entries(OperatorLine::Devices device);

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
