#include "runtime/kernels/cpu/elementwise_operators.h"

namespace autopar::runtime::cpu {
namespace {

using functions::Convert;

using Conversion = Block (*)(DataType from);

/// Null where nothing is converted to `to`.
Conversion conversion_to(DataType to) {
  Conversion found = nullptr;
  visit_type(to, NumbersAndBooleans{},
             [&]<typename To>(To) { found = block<Convert<To>, NumbersAndBooleans>; });
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
  const Conversion conversion = conversion_to(to);
  if (conversion == nullptr)
    fail("node '{}': {} to {} has no CPU kernel", use.node.name, qualified_op_type(use.node),
         name_of(to));
  return append_block(program, use, conversion, std::array{slot});
}

std::span<const ElementwiseOperator> cast_operators() { return lines; }

}  // namespace autopar::runtime::cpu
