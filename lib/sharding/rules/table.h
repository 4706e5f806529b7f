#pragma once

#include <span>
#include <string_view>

#include "sharding/rules/rules.h"

namespace autopar::sharding {

/// ShardingRule::linear of one operator instance. sharding_rule drops inputs that are left out, and
/// groups that types forbid.
using LinearFunction = std::vector<std::vector<int>>(const rules::Operator& op);

struct RuleEntry {
  std::string_view domain;
  std::string_view op_type;
  RuleFunction* rule;
  LinearFunction* linear = nullptr;  ///< null where it is linear in nothing
};

/// Every operator that can be split.
std::span<const RuleEntry> rule_table();
/// Null where the operator has no rule.
const RuleEntry* find_rule(std::string_view domain, std::string_view op_type);

}  // namespace autopar::sharding
