#pragma once

#include <span>

#include "runtime/kernels/elementwise/operator.h"

/// How a node becomes instructions. All throw Error naming the node for a type that is not served.
namespace autopar::runtime {

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

}  // namespace autopar::runtime
