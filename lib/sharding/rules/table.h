#pragma once

#include <span>
#include <string_view>

#include "sharding/sharding_rule.h"

namespace autopar::sharding {

/// The rule of one operator instance. Asked only for operators in the form of opset 18 or newer.
using RuleFunction = ShardingRule (*)(const graph::Graph& graph, const graph::Node& node);

/// ShardingRule::linear of one operator instance, as far as types do not matter.
using LinearFunction = std::vector<std::vector<int>> (*)(const graph::Graph& graph,
                                                         const graph::Node& node);

struct RuleEntry {
  std::string_view domain;
  std::string_view op_type;
  RuleFunction rule;
  LinearFunction linear = nullptr;  ///< null where it is linear in nothing
};

/// Every operator that can be split, one line each.
std::span<const RuleEntry> rule_table();
/// Null where the operator has no rule.
const RuleEntry* find_rule(std::string_view domain, std::string_view op_type);

}  // namespace autopar::sharding
