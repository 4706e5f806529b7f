#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/kernels/cpu/elementwise_program.h"

namespace autopar::runtime::cpu {

struct ElementwiseOperator;

/// One node that becomes instructions of a program.
struct ElementwiseUse {
  const ElementwiseOperator& op;
  const graph::Node& node;
  std::vector<int> operands;  ///< slots; -1 for a left-out optional input
  DataType result = DataType::undefined;
};

/// A number that a function takes from an attribute (an int or a float) of its node.
struct ParameterSource {
  std::string_view attribute;
  double otherwise = 0;
};

/// A line that holds only for nodes whose attribute has this value.
struct Variant {
  std::string_view attribute;
  std::string_view value;      ///< as text, ints too
  std::string_view otherwise;  ///< where the attribute is absent
};

/// One line: name, operands, what runs on a block of each type, and what its node's attributes say.
struct ElementwiseOperator {
  static constexpr int variadic = -1;

  std::string_view name;
  int operands = 1;  ///< as many as are read
  Block (*block)(DataType) = nullptr;
  /// The slot with the node's results; one instruction of `block` in most cases. Throws Error.
  int (*compose)(ElementwiseProgram&, const ElementwiseUse&) = nullptr;
  std::array<ParameterSource, 2> parameters{};
  Variant variant{};
};

/// The line that serves this node; null where there is none.
const ElementwiseOperator* find_elementwise_operator(const graph::Node& node);
/// Appends the node's instructions, rounds to `use.result` where that is a half type and more
/// follows, and returns the slot. Throws Error naming the node for a type it does not serve.
int append_node(ElementwiseProgram& program, const graph::Node& node, std::vector<int> operands,
                DataType result);

/// Slots that the node's instructions take beside its operands', as one link of a chain; nullopt
/// where it cannot be one.
std::optional<int> elementwise_slots(const graph::Node& node, std::span<const TensorView> inputs,
                                     const TensorView& output);

std::span<const ElementwiseOperator> arithmetic_operators();
std::span<const ElementwiseOperator> mathematical_operators();
std::span<const ElementwiseOperator> activation_operators();
std::span<const ElementwiseOperator> logical_operators();
std::span<const ElementwiseOperator> cast_operators();

// Ways to compose.

/// One instruction on all operands.
int compose_block(ElementwiseProgram& program, const ElementwiseUse& use);
/// x0 op x1 op x2 ..., for variadic operators.
int compose_fold(ElementwiseProgram& program, const ElementwiseUse& use);

/// One instruction; throws Error naming the node where the block serves not the operands' type.
int append_block(ElementwiseProgram& program, const ElementwiseUse& use, Block (*block)(DataType),
                 std::span<const int> operands, Parameters parameters = {});
/// Converts a slot to another compute type; itself where it has that type.
int append_cast(ElementwiseProgram& program, const ElementwiseUse& use, int slot, DataType to);

}  // namespace autopar::runtime::cpu
