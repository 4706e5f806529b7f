#pragma once

#include <span>
#include <vector>

#include "runtime/kernels/common/operator_line.h"

/// The families' tables, FAMILY/table.cpp: a line an operator, for all devices. They are compiled
/// for each device, with its own factories.
namespace autopar::runtime {

namespace AUTOPAR_DEVICE {

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

/// The lines of all families.
std::vector<OperatorLine> all_operators();

}  // namespace AUTOPAR_DEVICE

/// The entries of a device's KernelTable.
std::vector<KernelEntry> cpu_entries(std::span<const OperatorLine> lines);
std::vector<KernelEntry> cuda_entries(std::span<const OperatorLine> lines);

}  // namespace autopar::runtime
