#include "runtime/kernels/elementwise/chain_slots.h"

#include <algorithm>

#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime::cuda {
namespace {

/// The instructions that a program takes; rounding is a part of others unless there are none.
int instruction_count(const ElementwiseProgram& program) {
  const auto& instructions = program.instructions();
  const auto roundings = std::ranges::count_if(instructions, [](const auto& instruction) {
    return rounding_of(instruction.function) != DataType::undefined;
  });
  const auto all = static_cast<std::ptrdiff_t>(instructions.size());
  return static_cast<int>(roundings < all ? all - roundings : all);
}

}  // namespace

std::optional<int> chain_slots(const graph::Node& node, std::span<const TensorView> inputs,
                               const TensorView& output) {
  const auto program = link_program(node, inputs, output);
  if (!program || output.shape.size() > max_code_dimensions) return std::nullopt;
  return instruction_count(*program);
}

DataType rounding_of(FunctionId rounding) {
  if (rounding == function<functions::RoundTo<Float16>, Types<float>>) return DataType::float16;
  if (rounding == function<functions::RoundTo<BFloat16>, Types<float>>) return DataType::bfloat16;
  return DataType::undefined;
}

}  // namespace autopar::runtime::cuda
