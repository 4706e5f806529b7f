#include "runtime/kernels/elementwise/elementwise.h"

#include <algorithm>

#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/elementwise/chain.h"
#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime {
namespace {

/// All lines, with their functions.
const std::vector<ElementwiseOperator>& lines() {
  static const std::vector<ElementwiseOperator> all = [] {
    using namespace elementwise_table;
    std::vector<ElementwiseOperator> joined;
    const auto append = [&](const auto& table) {
      for (ElementwiseOperator op : table.lines) {
        op.function = static_cast<FunctionId>(joined.size());
        joined.push_back(op);
      }
    };
    append(arithmetic), append(mathematical), append(activations), append(logical), append(casts);
    return joined;
  }();
  return all;
}

template <typename F, typename Ts>
DataType result_of(Function<F, Ts>, DataType type) {
  DataType result = DataType::undefined;
  visit_type(type, Ts{}, [&]<typename T>(T) { result = data_type_of<ResultType<F, T>>; });
  return result;
}

template <typename... Fs>
DataType result_of(Types<Fs...>, FunctionId function, DataType type) {
  using Result = DataType (*)(DataType);
  static constexpr Result results[] = {[](DataType of) { return result_of(Fs{}, of); }...};
  return results[function](type);
}

/// An attribute's value as text; empty for kinds that no line asks for.
std::string text_of(const graph::Attribute& attribute) {
  if (const auto* number = std::get_if<std::int64_t>(&attribute)) return fmt::to_string(*number);
  if (const auto* text = std::get_if<std::string>(&attribute)) return *text;
  return {};
}

bool holds_for(const Variant& variant, const graph::Node& node) {
  if (variant.attribute.empty()) return true;
  const auto found = node.attributes.find(std::string(variant.attribute));
  if (found == node.attributes.end()) return variant.value == variant.otherwise;
  return variant.value == text_of(found->second);
}

int add_input(ElementwiseProgram& program, const graph::Node& node,
              std::span<const TensorView> inputs, std::size_t i) {
  const int slot = program.add_input(static_cast<int>(i), inputs[i]);
  if (slot < 0)
    fail("node '{}': input {} of {} has shape {}, which does not broadcast to {}", node.name, i,
         qualified_op_type(node), graph::to_string(inputs[i].shape),
         graph::to_string(program.shape));
  return slot;
}

/// The node and the inputs that it reads.
int append_whole_node(ElementwiseProgram& program, const graph::Node& node,
                      std::span<const TensorView> inputs, DataType result) {
  const ElementwiseOperator* op = find_elementwise_operator(node);
  const bool reads_all = op == nullptr || op->operands == ElementwiseOperator::variadic;
  if (!reads_all) inputs = inputs.first(std::min(inputs.size(), std::size_t(op->operands)));
  std::vector<int> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    operands.push_back(inputs[i].present() ? add_input(program, node, inputs, i) : -1);
  return append_node(program, node, std::move(operands), result);
}

}  // namespace

DataType compute_type(DataType type) { return is_half(type) ? DataType::float32 : type; }

int ElementwiseProgram::add_slot(DataType type) {
  types.push_back(type);
  return slots() - 1;
}

int ElementwiseProgram::add_input(int index, const TensorView& view) {
  const auto strides = broadcast_strides(view.shape, shape);
  if (strides.size() != shape.size()) return -1;
  inputs.push_back({index, add_slot(compute_type(view.type)), view.type, strides});
  return inputs.back().slot;
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
  std::vector<std::vector<std::int64_t>*> strides;
  for (Input& input : inputs) strides.push_back(&input.strides);
  merge_dimensions(shape, strides);
}

DataType result_type(FunctionId function, DataType type) {
  return result_of(ElementwiseFunctions{}, function, type);
}

const ElementwiseOperator* find_elementwise_operator(const graph::Node& node) {
  if (!node.domain.empty()) return nullptr;
  for (const ElementwiseOperator& op : lines())
    if (op.name == node.op_type && holds_for(op.variant, node)) return &op;
  return nullptr;
}

ElementwiseProgram elementwise_program(const KernelRequest& request) {
  ElementwiseProgram program{request.outputs.at(0).shape};
  const DataType result = request.outputs[0].type;
  program.set_output(append_whole_node(program, request.node, request.inputs, result), result);
  return program;
}

ElementwiseProgram chain_program(const KernelRequest& request) {
  ElementwiseProgram program{request.outputs.at(0).shape};
  std::vector<int> slots;  // of the chain's values
  for (std::size_t i = 0; i < request.inputs.size(); ++i)
    slots.push_back(add_input(program, request.node, request.inputs, i));
  DataType type = DataType::undefined;
  for (const ChainLink& link : decode_chain(request.node)) {
    // What leaves a link has its type's precision, as if it had been stored.
    if (type != DataType::undefined) slots.back() = append_rounding(program, slots.back(), type);
    const graph::Node node{request.node.name, link.op_type, "", {}, {}, link.attributes};
    std::vector<int> operands;
    for (const std::int64_t value : link.operands)
      operands.push_back(value == graph::no_value ? -1 : slots.at(static_cast<std::size_t>(value)));
    slots.push_back(append_node(program, node, std::move(operands), link.result));
    type = link.result;
  }
  program.set_output(slots.back(), type);
  return program;
}

std::optional<ElementwiseProgram> link_program(const graph::Node& node,
                                               std::span<const TensorView> inputs,
                                               const TensorView& output) {
  const ElementwiseOperator* op = find_elementwise_operator(node);
  if (op == nullptr) return std::nullopt;
  const bool reads_all = op->operands == ElementwiseOperator::variadic ||
                         inputs.size() <= static_cast<std::size_t>(op->operands);
  if (!reads_all) return std::nullopt;
  try {
    ElementwiseProgram program{output.shape};
    const int slot = append_whole_node(program, node, inputs, output.type);
    append_rounding(program, slot, output.type);
    return program;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<std::string_view> elementwise_operator_names() {
  std::vector<std::string_view> names;
  for (const ElementwiseOperator& op : lines())
    if (names.empty() || names.back() != op.name)  // variants stand together
      names.push_back(op.name);
  return names;
}

namespace cuda {
namespace {

/// The instructions that a program takes; rounding is a part of others unless there are none.
int instruction_count(const ElementwiseProgram& program) {
  const auto& instructions = program.instructions;
  const auto roundings = std::ranges::count_if(instructions, [](const auto& instruction) {
    return rounding_of(instruction.function) != DataType::undefined;
  });
  const auto all = static_cast<std::ptrdiff_t>(instructions.size());
  return static_cast<int>(roundings < all ? all - roundings : all);
}

}  // namespace

std::optional<int> chain_slots(const graph::Node& node, std::span<const TensorView> inputs,
                               const TensorView& output) {
  const auto program = link_program(node, inputs, output);
  if (!program || output.shape.size() > max_code_dimensions) return std::nullopt;
  return instruction_count(*program);
}

DataType rounding_of(FunctionId rounding) {
  if (rounding == function<functions::RoundTo<Float16>, Types<float>>) return DataType::float16;
  if (rounding == function<functions::RoundTo<BFloat16>, Types<float>>) return DataType::bfloat16;
  return DataType::undefined;
}

}  // namespace cuda

}  // namespace autopar::runtime
