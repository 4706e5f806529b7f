#include "runtime/kernels/elementwise/code_cuda.h"

#include <algorithm>

#include "runtime/kernels/elementwise/operators.h"
#include "runtime/kernels/elementwise/registers_cuda.h"

namespace autopar::runtime::cuda {
namespace {

using Kind = Source::Kind;

Access access_of(const std::vector<std::int64_t>& strides, const Shape& shape, int width) {
  if (std::ranges::all_of(strides, [](std::int64_t stride) { return stride == 0; }))
    return Access::one;
  if (strides == row_major_strides(shape)) return Access::contiguous;
  if (shape.back() % width == 0) return strides.back() == 0 ? Access::one_a_row : Access::rows;
  return shape.back() >= width ? Access::runs : Access::scattered;
}

/// The type of StoredIn that stands for `type`.
DataType bits_type(DataType type) {
  const DataType stored = stored_type(type);
  const int bits = graph::bits_of(stored);
  return bits == 32 ? DataType::uint32 : (bits == 64 ? DataType::uint64 : stored);
}

/// Walks a program's instructions and keeps track of where its slots' elements are.
class CodeMaker {
 public:
  CodeMaker(const ElementwiseProgram& program, ElementwiseCode& code)
      : program_(program), code_(code), places_(std::size_t(program.slots())) {
    last_uses_.resize(places_.size(), -1);
    for (std::size_t i = 0; i < program.inputs.size(); ++i)
      place_of(program.inputs[i].slot) = {Kind::input, static_cast<std::uint8_t>(i)};
    const auto& instructions = program.instructions;
    for (std::size_t time = 0; time < instructions.size(); ++time)
      for (const int operand : instructions[time].operands) last_use_of(operand) = int(time);
    last_use_of(program.output_slot) = int(instructions.size());
  }

  void make() {
    const auto& instructions = program_.instructions;
    for (std::size_t time = 0; time < instructions.size(); ++time)
      append(instructions[time], int(time));
    if (program_.output_slot == accumulated_) return;
    add().sources[0] = place_of(program_.output_slot);
  }

 private:
  Source& place_of(int slot) { return places_[static_cast<std::size_t>(slot)]; }
  int& last_use_of(int slot) { return last_uses_[static_cast<std::size_t>(slot)]; }
  CodeInstruction& last() { return code_.instructions[code_.instruction_count - 1]; }

  CodeInstruction& add() {
    require(code_.instruction_count < max_code_instructions, "element-wise code fits its limit");
    ++code_.instruction_count;
    return last();
  }

  void append(const ElementwiseProgram::Instruction& instruction, int time) {
    const int operand = instruction.operands[0];
    const DataType rounding = rounding_of(instruction.function);
    // What no one else reads is rounded where it is made.
    const bool rounds_last = rounding != DataType::undefined && operand == accumulated_ &&
                             last_use_of(operand) == time && last().round_to == DataType::undefined;
    if (!rounds_last) add_own(instruction, rounding != DataType::undefined);
    if (rounding != DataType::undefined) last().round_to = rounding;
    for (const int read : instruction.operands)
      if (last_use_of(read) == time && place_of(read).kind == Kind::slot)
        is_taken_[place_of(read).index] = false;
    accumulated_ = instruction.result;
    if (last_use_of(accumulated_) > time + 1) save();
  }

  void add_own(const ElementwiseProgram::Instruction& instruction, bool is_rounding) {
    CodeInstruction& own = add();
    if (!is_rounding) own.function = static_cast<std::int16_t>(instruction.function);
    own.type = register_type(instruction.type);
    own.parameters = instruction.parameters;
    const DataType result = program_.type_of(instruction.result);
    if (register_type(result) != result) own.round_to = result;  // narrow integers wrap
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      const int operand = instruction.operands[i];
      own.sources[i] = operand == accumulated_ ? Source{Kind::accumulator} : place_of(operand);
    }
  }

  /// Keeps the accumulator in a free slot.
  void save() {
    const auto free = std::ranges::find(is_taken_, false);
    require(free != is_taken_.end(), "element-wise code fits its slots");
    const auto slot = free - is_taken_.begin();
    *free = true;
    last().save = static_cast<std::int8_t>(slot);
    place_of(accumulated_) = {Kind::slot, static_cast<std::uint8_t>(slot)};
    code_.slots = std::max(code_.slots, static_cast<int>(slot) + 1);
  }

  const ElementwiseProgram& program_;
  ElementwiseCode& code_;
  std::vector<Source>
      places_;  ///< by the program's slot; none for what is in the accumulator alone
  std::vector<int> last_uses_;  ///< the instructions that read the program's slots last
  std::array<bool, max_code_slots> is_taken_{};
  int accumulated_ = -1;
};

template <typename... Fs>
bool is_only_wide(Types<Fs...>, FunctionId function) {
  static constexpr bool only_wide[] = {is_only_wide_function<Fs>...};
  return only_wide[function];
}

}  // namespace

DataType register_type(DataType type) {
  DataType found = type;
  visit_type(type, NumbersAndBooleans{},
             [&]<typename T>(T) { found = data_type_of<RegisterType<T>>; });
  return found;
}

bool needs_wide_registers(const ElementwiseProgram& program) {
  for (int slot = 0; slot < program.slots(); ++slot)
    if (graph::bits_of(program.type_of(slot)) == 64) return true;
  return std::ranges::any_of(program.instructions, [](const auto& instruction) {
    return is_only_wide(ElementwiseFunctions{}, instruction.function);
  });
}

ElementwiseCode make_code(const ElementwiseProgram& program, int width, const graph::Node& node) {
  const Shape& shape = program.shape;
  if (shape.size() > max_code_dimensions)
    fail("node '{}': {} over {} dimensions that do not merge has no CUDA kernel", node.name,
         qualified_op_type(node), shape.size());
  if (program.inputs.size() > max_code_inputs)
    fail("node '{}': {} of {} inputs has no CUDA kernel", node.name, qualified_op_type(node),
         program.inputs.size());
  ElementwiseCode code;
  code.elements = graph::num_elements(shape);
  code.output_type = bits_type(program.output_type);
  if (code.elements == 0) return code;
  code.dimensions = static_cast<int>(shape.size());
  code.has_small_indices = code.elements < std::int64_t{1} << 31;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    code.extents[d] = shape[d];
    if (code.has_small_indices) code.divisors[d] = FastDivisor(shape[d]);
  }
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const ElementwiseProgram::Input& input = program.inputs[i];
    code.inputs[i].type = bits_type(input.type);
    code.inputs[i].element_bytes = static_cast<std::uint8_t>(graph::bits_of(input.type) / 8);
    code.inputs[i].access = access_of(input.strides, shape, width);
    std::ranges::copy(input.strides, code.inputs[i].strides);
  }
  CodeMaker(program, code).make();
  return code;
}

}  // namespace autopar::runtime::cuda
