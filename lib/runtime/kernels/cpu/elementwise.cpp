#include <algorithm>
#include <string>

#include "runtime/device.h"
#include "runtime/kernels/cpu/elementwise_operators.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/elementwise_chain.h"

namespace autopar::runtime::cpu {
namespace {

std::array<std::span<const ElementwiseOperator>, 5> tables() {
  return {arithmetic_operators(), mathematical_operators(), activation_operators(),
          logical_operators(), cast_operators()};
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

double value_of(const ParameterSource& source, const graph::Node& node) {
  if (source.attribute.empty()) return 0;
  const auto found = node.attributes.find(std::string(source.attribute));
  if (found == node.attributes.end()) return source.otherwise;
  if (const auto* real = std::get_if<float>(&found->second)) return *real;
  if (const auto* integer = std::get_if<std::int64_t>(&found->second))
    return static_cast<double>(*integer);
  fail("node '{}': attribute '{}' of {} must be a number", node.name, source.attribute,
       qualified_op_type(node));
}

Parameters parameters_of(const ElementwiseUse& use) {
  return {value_of(use.op.parameters[0], use.node), value_of(use.op.parameters[1], use.node)};
}

int add_input(ElementwiseProgram& program, const graph::Node& node,
              std::span<const TensorView> inputs, std::size_t i) {
  if (!program.can_read(inputs[i]))
    fail("node '{}': input {} of {} has shape {}, which does not broadcast to {}", node.name, i,
         qualified_op_type(node), graph::to_string(inputs[i].shape),
         graph::to_string(program.shape()));
  return program.add_input(static_cast<int>(i), inputs[i]);
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

class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(ElementwiseProgram program, int threads)
      : program_(std::move(program)), threads_(threads) {}
  void run(const KernelIo& io) override { program_.run(io, threads_); }

 private:
  ElementwiseProgram program_;
  int threads_;
};

}  // namespace

const ElementwiseOperator* find_elementwise_operator(const graph::Node& node) {
  if (!node.domain.empty()) return nullptr;
  for (const auto& table : tables())
    for (const ElementwiseOperator& op : table)
      if (op.name == node.op_type && holds_for(op.variant, node)) return &op;
  return nullptr;
}

int append_block(ElementwiseProgram& program, const ElementwiseUse& use, Block (*block)(DataType),
                 std::span<const int> operands, Parameters parameters) {
  const DataType type = program.type_of(operands.back());
  const Block found = block(type);
  if (found.function == nullptr)
    fail("node '{}': {} on {} has no CPU kernel", use.node.name, qualified_op_type(use.node),
         name_of(type));
  return program.add_instruction(found, operands, parameters);
}

int compose_block(ElementwiseProgram& program, const ElementwiseUse& use) {
  return append_block(program, use, use.op.block, use.operands, parameters_of(use));
}

int compose_fold(ElementwiseProgram& program, const ElementwiseUse& use) {
  int slot = use.operands[0];
  for (std::size_t i = 1; i < use.operands.size(); ++i)
    slot = append_block(program, use, use.op.block, std::array{slot, use.operands[i]});
  return slot;
}

int append_node(ElementwiseProgram& program, const graph::Node& node, std::vector<int> operands,
                DataType result) {
  const ElementwiseOperator* op = find_elementwise_operator(node);
  if (op == nullptr)
    fail("node '{}': this form of {} has no CPU kernel", node.name, qualified_op_type(node));
  const ElementwiseUse use{*op, node, std::move(operands), result};
  const int slot = op->compose ? op->compose(program, use) : compose_block(program, use);
  if (program.type_of(slot) != compute_type(result))
    fail("node '{}': {} gives {}, not {}", node.name, qualified_op_type(node),
         name_of(program.type_of(slot)), name_of(result));
  return slot;
}

std::unique_ptr<Kernel> make_elementwise(const KernelRequest& request) {
  ElementwiseProgram program(request.outputs.at(0).shape);
  const DataType result = request.outputs[0].type;
  const int slot = append_whole_node(program, request.node, request.inputs, result);
  program.set_output(slot, result);
  return std::make_unique<ElementwiseKernel>(std::move(program), request.device.threads());
}

std::unique_ptr<Kernel> make_elementwise_chain(const KernelRequest& request) {
  using Kind = ChainLink::Operand::Kind;
  ElementwiseProgram program(request.outputs.at(0).shape);
  std::vector<int> inputs;
  for (std::size_t i = 0; i < request.inputs.size(); ++i)
    inputs.push_back(add_input(program, request.node, request.inputs, i));
  std::vector<int> results;
  DataType type = DataType::undefined;
  for (const ChainLink& link : decode_chain(request.node)) {
    // What leaves a link has its type's precision, as if it had been stored.
    if (!results.empty()) results.back() = program.round_to(type, results.back());
    const graph::Node node{request.node.name, link.op_type, "", {}, {}, link.attributes};
    std::vector<int> operands;
    for (const auto& operand : link.operands)
      operands.push_back(operand.kind == Kind::none    ? -1
                         : operand.kind == Kind::input ? inputs.at(operand.index)
                                                       : results.at(operand.index));
    results.push_back(append_node(program, node, std::move(operands), link.result));
    type = link.result;
  }
  program.set_output(results.back(), type);
  return std::make_unique<ElementwiseKernel>(std::move(program), request.device.threads());
}

std::optional<int> elementwise_slots(const graph::Node& node, std::span<const TensorView> inputs,
                                     const TensorView& output) {
  const ElementwiseOperator* op = find_elementwise_operator(node);
  if (op == nullptr) return std::nullopt;
  const bool reads_all = op->operands == ElementwiseOperator::variadic ||
                         inputs.size() <= static_cast<std::size_t>(op->operands);
  if (!reads_all) return std::nullopt;
  try {
    ElementwiseProgram program(output.shape);
    const int slot = append_whole_node(program, node, inputs, output.type);
    program.round_to(output.type, slot);
    const auto present = std::ranges::count_if(inputs, &TensorView::present);
    return program.slots() - static_cast<int>(present);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<KernelEntry> elementwise_kernels() {
  std::vector<KernelEntry> entries;
  for (const auto& table : tables())
    for (const ElementwiseOperator& op : table)
      if (entries.empty() || entries.back().op_type != op.name)  // variants stand together
        entries.push_back({"", op.name, make_elementwise});
  return entries;
}

}  // namespace autopar::runtime::cpu
