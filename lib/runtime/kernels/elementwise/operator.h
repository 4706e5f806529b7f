#pragma once

#include <array>
#include <string_view>

#include "runtime/kernels/elementwise/elementwise.h"

namespace autopar::runtime {

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

/// What a line says beside its function: name, operands, and what its node's attributes mean.
struct ElementwiseOperator {
  static constexpr int variadic = -1;

  std::string_view name;
  int operands = 1;  ///< as many as are read
  /// The slot with the node's results; one instruction in most cases. Throws Error.
  int (*compose)(ElementwiseProgram&, const ElementwiseUse&) = nullptr;
  std::array<ParameterSource, 2> parameters{};
  Variant variant{};
  FunctionId function = -1;  ///< the line's own place
};

// How a node becomes instructions. All throw Error naming the node for a type that is not served.

/// One instruction on all operands.
int compose_one(ElementwiseProgram& program, const ElementwiseUse& use);
/// x0 op x1 op x2 ..., for variadic operators.
int compose_fold(ElementwiseProgram& program, const ElementwiseUse& use);
int compose_mean(ElementwiseProgram& program, const ElementwiseUse& use);
/// The result has the base's type; an integer to a float's power is computed in double.
int compose_pow(ElementwiseProgram& program, const ElementwiseUse& use);
/// Each bound may be left out.
int compose_clip(ElementwiseProgram& program, const ElementwiseUse& use);
int compose_cast(ElementwiseProgram& program, const ElementwiseUse& use);

/// Appends the node's instructions and returns the slot with its results, of `result`'s compute
/// type.
int append_node(ElementwiseProgram& program, const graph::Node& node, std::vector<int> operands,
                DataType result);
/// Rounds a slot to what `type` can hold; itself where that changes nothing.
int append_rounding(ElementwiseProgram& program, int slot, DataType type);

/// An operator and its function.
template <typename Function>
struct Line {
  ElementwiseOperator op;
};
template <typename F, typename Ts>
constexpr Line<Function<F, Ts>> line(const ElementwiseOperator& op) {
  return {op};
}

/// For operators that are composed of others' functions.
struct NoFunction {};
constexpr Line<Function<NoFunction, Types<>>> composed(const ElementwiseOperator& op) {
  return {op};
}

/// Lines, and their functions as a list that devices make their implementations from.
template <typename... Fs>
struct OperatorTable {
  using Functions = Types<Fs...>;
  std::array<ElementwiseOperator, sizeof...(Fs)> lines;
};
template <typename... Fs>
constexpr OperatorTable<Fs...> operators(const Line<Fs>&... lines) {
  return {{lines.op...}};
}

}  // namespace autopar::runtime
