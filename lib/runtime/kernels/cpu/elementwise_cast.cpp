#include "runtime/kernels/cpu/elementwise_operators.h"

namespace autopar::runtime::cpu {
namespace {

using functions::Convert;

template <typename To>
Block convert_to(DataType from) {
  Block found = block<Convert<To>, NumbersAndBooleans>(from);
  return found;
}

template <typename... Ts>
auto pick_conversion(DataType to, Types<Ts...>) {
  Block (*found)(DataType) = nullptr;
  static_cast<void>(((to == data_type_of<Ts> ? (found = convert_to<Ts>, true) : false) || ...));
  return found;
}

int compose_cast(ElementwiseProgram& program, const ElementwiseUse& use) {
  return append_cast(program, use, use.operands[0], compute_type(use.result));
}

/// CastLike's second operand gives its type alone, which the output has as well.
constexpr ElementwiseOperator lines[] = {
    {"Cast", 1, nullptr, compose_cast},
    {"CastLike", 1, nullptr, compose_cast},
};

}  // namespace

int append_cast(ElementwiseProgram& program, const ElementwiseUse& use, int slot, DataType to) {
  if (program.type_of(slot) == to) return slot;
  Block (*conversion)(DataType) = pick_conversion(to, NumbersAndBooleans{});
  if (conversion == nullptr)
    fail("node '{}': {} to {} has no CPU kernel", use.node.name, qualified_op_type(use.node),
         name_of(to));
  return append_block(program, use, conversion, std::array{slot});
}

std::span<const ElementwiseOperator> cast_operators() { return lines; }

}  // namespace autopar::runtime::cpu
