#include "runtime/kernels/elementwise/program.h"

#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/elementwise/elementwise.h"

namespace autopar::runtime {

DataType compute_type(DataType type) {
  const bool is_half = type == DataType::float16 || type == DataType::bfloat16;
  return is_half ? DataType::float32 : type;
}

int ElementwiseProgram::add_slot(DataType type) {
  types_.push_back(type);
  return slots() - 1;
}

bool ElementwiseProgram::can_read(const TensorView& view) const {
  return broadcast_strides(view.shape, shape_).size() == shape_.size();
}

int ElementwiseProgram::add_input(int index, const TensorView& view) {
  const int slot = add_slot(compute_type(view.type));
  inputs_.push_back({index, slot, view.type, broadcast_strides(view.shape, shape_)});
  return slot;
}

int ElementwiseProgram::add_instruction(FunctionId function, std::span<const int> operands,
                                        Parameters parameters) {
  const DataType type = type_of(operands.back());
  const DataType result = result_type(function, type);
  if (result == DataType::undefined) return -1;
  const int slot = add_slot(result);
  instructions_.push_back({function, type, {operands.begin(), operands.end()}, slot, parameters});
  return slot;
}

void ElementwiseProgram::set_output(int slot, DataType type) {
  require(type_of(slot) == compute_type(type), "an element-wise result has its output's type");
  output_slot_ = slot;
  output_type_ = type;
  std::vector<std::vector<std::int64_t>> strides;
  for (Input& input : inputs_) strides.push_back(std::move(input.strides));
  merge_dimensions(shape_, strides);
  for (std::size_t i = 0; i < inputs_.size(); ++i) inputs_[i].strides = std::move(strides[i]);
}

}  // namespace autopar::runtime
