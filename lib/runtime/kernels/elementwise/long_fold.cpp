#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/elementwise/operator.h"

namespace autopar::runtime {
namespace {

/// Inputs of one program.
constexpr std::size_t most_operands = 8;

graph::Tensor share_of(DataType type, std::size_t operands) {
  const double share = 1.0 / static_cast<double>(operands);
  if (type == DataType::float64) return graph::Tensor::of<double>(type, {}, std::span(&share, 1));
  const auto narrow = static_cast<float>(share);
  return graph::Tensor::of_float({}, std::span(&narrow, 1));
}

}  // namespace

std::unique_ptr<Kernel> make_long_fold(const KernelRequest& request) {
  const std::size_t operands = request.inputs.size();
  const ElementwiseOperator* op = find_elementwise_operator(request.node);
  if (op == nullptr || op->operands != ElementwiseOperator::variadic || operands <= most_operands)
    return nullptr;
  const bool is_mean = request.node.op_type == "Mean";
  Composite composite(request);
  const Composite::Part out = composite.output(0);
  // What lies between steps is rounded no more than within a program.
  const DataType type = compute_type(out.type);
  Composite::Part so_far = composite.input(0);
  for (std::size_t next = 1; next < operands;) {
    std::vector<Composite::Part> some{so_far};
    while (some.size() < most_operands && next < operands) some.push_back(composite.input(next++));
    const bool is_last = next == operands && !is_mean;
    so_far = is_last ? out : composite.temporary(type, out.shape);
    composite.add("", is_mean ? "Sum" : request.node.op_type, {}, some, {so_far});
  }
  if (is_mean)
    composite.add("", "Mul", {}, {so_far, composite.constant(share_of(type, operands))}, {out});
  return composite.finish();
}

}  // namespace autopar::runtime
