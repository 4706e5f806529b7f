#include <algorithm>
#include <string>

#include "runtime/kernels/cpu/elementwise_operators.h"
#include "runtime/kernels/cpu/factories.h"

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
  const graph::Node& node = request.node;
  ElementwiseProgram program(request.outputs.at(0).shape);
  std::vector<int> operands;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorView& view = request.inputs[i];
    if (view.present() && !program.can_read(view))
      fail("node '{}': input {} of {} has shape {}, which does not broadcast to {}", node.name, i,
           qualified_op_type(node), graph::to_string(view.shape),
           graph::to_string(request.outputs[0].shape));
    operands.push_back(view.present() ? program.add_input(static_cast<int>(i), view) : -1);
  }
  const DataType result = request.outputs[0].type;
  program.set_output(append_node(program, node, std::move(operands), result), result);
  return std::make_unique<ElementwiseKernel>(std::move(program), request.threads);
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
