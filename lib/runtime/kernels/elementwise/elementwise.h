#pragma once

#include "runtime/kernels/common/for_device.h"
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
/// The program of an ElementwiseChain (chain.h).
ElementwiseProgram chain_program(const KernelRequest& request);
/// A node's program as a link of a chain, its result rounded, without an output; nullopt where it
/// cannot be a link.
std::optional<ElementwiseProgram> link_program(const graph::Node& node,
                                               std::span<const TensorView> inputs,
                                               const TensorView& output);

/// The names of the operators in operators.h, each once.
std::vector<std::string_view> elementwise_operator_names();

namespace AUTOPAR_DEVICE {
/// Every operator of operators.h.
MakeKernel make_elementwise;
/// Cast and CastLike: element-wise unless a type is one that no operator computes in.
MakeKernel make_cast;
MakeKernel make_elementwise_chain;
}  // namespace AUTOPAR_DEVICE

// How long a chain of element-wise operators each device takes (KernelTable::chain_slots).

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
