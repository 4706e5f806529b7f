#include "runtime/kernels/elementwise/program.h"

#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/elementwise/elementwise.h"

namespace autopar::runtime {

DataType compute_type(DataType type) { return is_half(type) ? DataType::float32 : type; }

int ElementwiseProgram::add_slot(DataType type) {
  types.push_back(type);
  return slots() - 1;
}

bool ElementwiseProgram::can_read(const TensorView& view) const {
  return broadcast_strides(view.shape, shape).size() == shape.size();
}

int ElementwiseProgram::add_input(int index, const TensorView& view) {
  const int slot = add_slot(compute_type(view.type));
  inputs.push_back({index, slot, view.type, broadcast_strides(view.shape, shape)});
  return slot;
}

int ElementwiseProgram::add_instruction(FunctionId function, std::span<const int> operands,
                                        Parameters parameters) {
  const DataType type = type_of(operands.back());
  const DataType result = result_type(function, type);
  if (result == DataType::undefined) return -1;
  const int slot = add_slot(result);
  instructions.push_back({function, type, {operands.begin(), operands.end()}, slot, parameters});
  return slot;
}

void ElementwiseProgram::set_output(int slot, DataType type) {
  require(type_of(slot) == compute_type(type), "an element-wise result has its output's type");
  output_slot = slot;
  output_type = type;
  std::vector<std::vector<std::int64_t>> strides;
  for (Input& input : inputs) strides.push_back(std::move(input.strides));
  merge_dimensions(shape, strides);
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].strides = std::move(strides[i]);
}

}  // namespace autopar::runtime
