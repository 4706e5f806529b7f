#include "runtime/kernels/elementwise/operator.h"

#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime {
namespace {

using namespace functions;

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

int append(ElementwiseProgram& program, const ElementwiseUse& use, FunctionId function,
           std::span<const int> operands, Parameters parameters = {}) {
  const int slot = program.add_instruction(function, operands, parameters);
  if (slot < 0)
    fail("node '{}': {} of {} has no kernel", use.node.name, qualified_op_type(use.node),
         name_of(program.type_of(operands.back())));
  return slot;
}

/// Converts a slot to another compute type; itself where it has that type.
int append_cast(ElementwiseProgram& program, const ElementwiseUse& use, int slot, DataType to) {
  if (program.type_of(slot) == to) return slot;
  int converted = -1;
  visit_type(to, NumbersAndBooleans{}, [&]<typename To>(To) {
    converted = append(program, use, function<Convert<To>, NumbersAndBooleans>, std::array{slot});
  });
  if (converted < 0)
    fail("node '{}': {} to {} has no kernel", use.node.name, qualified_op_type(use.node),
         name_of(to));
  return converted;
}

}  // namespace

int compose_one(ElementwiseProgram& program, const ElementwiseUse& use) {
  const auto& [a, b] = use.op.parameters;
  return append(program, use, use.op.function, use.operands,
                {value_of(a, use.node), value_of(b, use.node)});
}

int compose_fold(ElementwiseProgram& program, const ElementwiseUse& use) {
  int slot = use.operands[0];
  for (std::size_t i = 1; i < use.operands.size(); ++i)
    slot = append(program, use, use.op.function, std::array{slot, use.operands[i]});
  return slot;
}

int compose_mean(ElementwiseProgram& program, const ElementwiseUse& use) {
  const int sum = compose_fold(program, use);
  const double share = 1.0 / static_cast<double>(use.operands.size());
  return append(program, use, function<Scale, Floats>, std::array{sum}, {share, 0});
}

int compose_pow(ElementwiseProgram& program, const ElementwiseUse& use) {
  const int base = use.operands[0];
  const DataType base_type = program.type_of(base);
  const bool is_mixed = !graph::is_floating_point(base_type) &&
                        graph::is_floating_point(program.type_of(use.operands[1]));
  const DataType type = is_mixed ? DataType::float64 : base_type;
  const std::array operands{append_cast(program, use, base, type),
                            append_cast(program, use, use.operands[1], type)};
  const auto function_of = is_mixed ? function<PowOfInteger, Types<double>> : use.op.function;
  return append_cast(program, use, append(program, use, function_of, operands), base_type);
}

int compose_clip(ElementwiseProgram& program, const ElementwiseUse& use) {
  constexpr std::array bounds{function<Max, Numbers>, function<Min, Numbers>};
  int slot = use.operands[0];
  for (std::size_t i = 1; i < use.operands.size(); ++i)
    if (use.operands[i] >= 0)
      slot = append(program, use, bounds.at(i - 1), std::array{slot, use.operands[i]});
  return slot;
}

int compose_cast(ElementwiseProgram& program, const ElementwiseUse& use) {
  return append_cast(program, use, use.operands[0], compute_type(use.result));
}

int append_node(ElementwiseProgram& program, const graph::Node& node, std::vector<int> operands,
                DataType result) {
  const ElementwiseOperator* op = find_elementwise_operator(node);
  if (op == nullptr)
    fail("node '{}': this form of {} has no kernel", node.name, qualified_op_type(node));
  const ElementwiseUse use{*op, node, std::move(operands), result};
  const int slot = op->compose ? op->compose(program, use) : compose_one(program, use);
  if (program.type_of(slot) != compute_type(result))
    fail("node '{}': {} gives {}, not {}", node.name, qualified_op_type(node),
         name_of(program.type_of(slot)), name_of(result));
  return slot;
}

int append_rounding(ElementwiseProgram& program, int slot, DataType type) {
  visit_type(type, Halves{}, [&]<typename Half>(Half) {
    slot = program.add_instruction(function<RoundTo<Half>, Types<float>>, std::array{slot});
  });
  return slot;
}

}  // namespace autopar::runtime
