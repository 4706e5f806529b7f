#include <algorithm>

#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {
namespace {

constexpr OperatorLine own_lines[] = {
    {passes::internal_domain, "ElementwiseChain", make_elementwise_chain},
    {"", "Cast", make_cast},
    {"", "CastLike", make_cast},
};

/// Those, and the operators of operators.h that are not among them.
std::vector<OperatorLine> all_lines() {
  std::vector<OperatorLine> lines(std::begin(own_lines), std::end(own_lines));
  for (const std::string_view name : elementwise_operator_names())
    if (std::ranges::find(own_lines, name, &OperatorLine::op_type) == std::end(own_lines))
      lines.push_back({"", name, make_elementwise});
  return lines;
}

}  // namespace

std::span<const OperatorLine> elementwise_operators() {
  static const std::vector<OperatorLine> lines = all_lines();
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
