#pragma once

#include "runtime/kernels/common/for_device.h"
#include "runtime/kernels/elementwise/function.h"

/// Nodes as element-wise programs, for all devices.
namespace autopar::runtime {

/// The type in which elements of `type` are computed: float for the half types, else the same.
DataType compute_type(DataType type);

/// What an element-wise kernel does for every element of its output, for all devices: functions of
/// the list in operators.h, one after the other. A *slot* stands for one element of an operand or
/// of an instruction's results, in its compute type. A single operator is a program of one
/// instruction; a chain of operators is one of several.
struct ElementwiseProgram {
  struct Input {
    int index = 0;  ///< among the kernel's
    int slot = 0;
    DataType type = DataType::undefined;  ///< as stored
    std::vector<std::int64_t> strides;    ///< along `shape`, in elements; 0 where it is repeated
  };
  struct Instruction {
    FunctionId function = -1;
    DataType type = DataType::undefined;  ///< of the operands, but for the condition of Where
    std::vector<int> operands;            ///< slots
    int result = 0;
    Parameters parameters;
  };

  Shape shape;  ///< the output's; merged with the inputs' strides once the output is set
  std::vector<Input> inputs = {};
  std::vector<Instruction> instructions = {};
  std::vector<DataType> types = {};  ///< by slot
  int output_slot = -1;
  DataType output_type = DataType::undefined;

  int slots() const { return static_cast<int>(types.size()); }
  DataType type_of(int slot) const { return types[static_cast<std::size_t>(slot)]; }

  int add_slot(DataType type);
  /// The slot of kernel input `index`; -1 where it does not broadcast to the output's shape.
  int add_input(int index, const TensorView& view);
  /// The slot of the results; -1 where the function does not serve the last operand's type.
  int add_instruction(FunctionId function, std::span<const int> operands,
                      Parameters parameters = {});
  /// The slot that becomes output 0, of type `type`. Ends the making: dimensions are merged.
  void set_output(int slot, DataType type);
};

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

/// Sum, Mean, Max or Min of more inputs than one program takes on every device: some of them at a
/// time. Null for all other nodes.
std::unique_ptr<Kernel> make_long_fold(const KernelRequest& request);

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
