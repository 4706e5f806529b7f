#pragma once

#include <optional>
#include <span>

#include "runtime/kernels/elementwise/program.h"

/// How long a chain of element-wise operators each device takes (KernelTable::chain_slots).
namespace autopar::runtime {

namespace cpu {
/// A slot is a buffer for a tile.
inline constexpr int max_chain_slots = 24;
std::optional<int> chain_slots(const graph::Node& node, std::span<const TensorView> inputs,
                               const TensorView& output);
}  // namespace cpu

namespace cuda {
/// Dimensions and instructions that the interpreter of element-wise code takes; a link takes as
/// many slots as it has instructions.
inline constexpr int max_code_dimensions = 8;
inline constexpr int max_chain_slots = 20;
std::optional<int> chain_slots(const graph::Node& node, std::span<const TensorView> inputs,
                               const TensorView& output);
/// The half type that a function rounds to, which is a part of other instructions; undefined for
/// all other functions.
DataType rounding_of(FunctionId function);
}  // namespace cuda

}  // namespace autopar::runtime
