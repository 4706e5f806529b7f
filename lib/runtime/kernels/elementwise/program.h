#pragma once

#include "runtime/kernels/elementwise/function.h"

namespace autopar::runtime {

/// The type in which elements of `type` are computed: float for the half types, else the same.
DataType compute_type(DataType type);

/// What an element-wise kernel does for every element of its output, for all devices: functions of
/// the list in operators.h, one after the other. A *slot* stands for one element of an
/// operand or of an instruction's results, in its compute type. A single operator is a program of
/// one instruction; a chain of operators is one of several.
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
  /// False where the view cannot be broadcast to the output's shape.
  bool can_read(const TensorView& view) const;
  /// The slot of kernel input `index`.
  int add_input(int index, const TensorView& view);
  /// The slot of the results; -1 where the function does not serve the last operand's type.
  int add_instruction(FunctionId function, std::span<const int> operands,
                      Parameters parameters = {});
  /// The slot that becomes output 0, of type `type`. Ends the making: dimensions are merged.
  void set_output(int slot, DataType type);
};

}  // namespace autopar::runtime
