#include "sharding/rules/table.h"

#include <map>
#include <utility>

#include "sharding/rules/rules.h"

namespace autopar::sharding {
namespace {

constexpr RuleEntry table[] = {
    // Element-wise, with broadcasting
    {"", "Abs", rules::elementwise},
    {"", "Add", rules::elementwise},
    {"", "And", rules::elementwise},
    {"", "Cast", rules::elementwise},
    {"", "CastLike", rules::cast_like},
    {"", "Clip", rules::elementwise},
    {"", "Div", rules::elementwise},
    {"", "Equal", rules::elementwise},
    {"", "Erf", rules::elementwise},
    {"", "Exp", rules::elementwise},
    {"", "Gelu", rules::elementwise},
    {"", "Identity", rules::identity},
    {"", "Mul", rules::elementwise},
    {"", "Neg", rules::elementwise},
    {"", "Pow", rules::elementwise},
    {"", "Relu", rules::elementwise},
    {"", "Sigmoid", rules::elementwise},
    {"", "Sqrt", rules::elementwise},
    {"", "Sub", rules::elementwise},
    {"", "Tanh", rules::elementwise},
    {"", "Where", rules::elementwise},
    // Matrix products
    {"", "Gemm", rules::gemm},
    {"", "MatMul", rules::matmul},
};

}  // namespace

std::span<const RuleEntry> rule_table() { return table; }

RuleFunction find_rule(std::string_view domain, std::string_view op_type) {
  static const auto by_name = [] {
    std::map<std::pair<std::string_view, std::string_view>, RuleFunction> result;
    for (const RuleEntry& entry : table) result[{entry.domain, entry.op_type}] = entry.rule;
    return result;
  }();
  const auto found = by_name.find({domain, op_type});
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace autopar::sharding
