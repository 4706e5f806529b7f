#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/kernels/elementwise/program.h"

/// What CUDA's kernels serve, known without CUDA: where a plan is made for GPUs, there may be none,
/// and the memory of its run follows from what passes will make there.
namespace autopar::runtime {

/// The names in CUDA's table (kernels/cuda/table.cpp), and what it fuses. No entry makes a kernel:
/// that is for the table itself, which a plugin has.
const KernelTable& cuda_operators();

namespace cuda {

/// As KernelTable::serves.
bool serves(const graph::Node& node, std::span<const TensorView> inputs,
            std::span<const TensorView> outputs);

/// Whether the kernel for half types, which keeps scores in registers, takes an Attention node:
/// rows of whole 16 bytes, up to 256 deep.
bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs);
/// Queries that a block of it has.
inline constexpr int attention_tile_queries = 64;

/// A mask's strides along rows, merged, and along columns.
struct MaskLayout {
  static constexpr int max_dimensions = 4;

  Shape extents;
  std::vector<std::int64_t> strides;
  std::int64_t column_stride = 0;
};
/// nullopt where MaskedSoftmax does not take the mask, input 1, to input 0.
std::optional<MaskLayout> mask_layout(std::span<const TensorView> inputs);

/// Dimensions and instructions that the interpreter of element-wise code takes.
inline constexpr int max_code_dimensions = 8;
/// As KernelTable tells: a link takes as many as it has instructions.
inline constexpr int max_chain_slots = 20;
std::optional<int> chain_slots(const graph::Node& node, std::span<const TensorView> inputs,
                               const TensorView& output);
/// The half type that a function rounds to, which is a part of other instructions; undefined for
/// all other functions.
DataType rounding_of(FunctionId function);

}  // namespace cuda

}  // namespace autopar::runtime
