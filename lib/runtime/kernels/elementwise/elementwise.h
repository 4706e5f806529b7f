#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/kernels/elementwise/program.h"

/// Nodes as element-wise programs, for all devices.
namespace autopar::runtime {

/// The type of a function's results on operands of `type`; undefined where it serves them not.
DataType result_type(FunctionId function, DataType type);

/// The line that serves this node; null where there is none.
struct ElementwiseOperator;
const ElementwiseOperator* find_elementwise_operator(const graph::Node& node);

/// The program of an operator's node. Throws Error naming it for types and shapes not served.
ElementwiseProgram elementwise_program(const KernelRequest& request);
/// The program of an ElementwiseChain (elementwise_chain.h).
ElementwiseProgram chain_program(const KernelRequest& request);
/// A node's program as a link of a chain, its result rounded, without an output; nullopt where it
/// cannot be a link.
std::optional<ElementwiseProgram> link_program(const graph::Node& node,
                                               std::span<const TensorView> inputs,
                                               const TensorView& output);

/// The names of the operators in operators.h, each once.
std::vector<std::string_view> elementwise_operator_names();

}  // namespace autopar::runtime
