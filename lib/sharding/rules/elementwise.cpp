// Operators whose every output element depends on one element of each input, after broadcasting.

#include <algorithm>

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {

ShardingRule elementwise(const Operator& op) {
  const std::string result = letters(op.outputs.front().size());
  const auto texts = [&](const std::vector<Shape>& shapes) {
    std::vector<std::string> list;
    for (const Shape& shape : shapes) list.push_back(aligned(result, shape.size()));
    return list;
  };
  return op.rule(texts(op.inputs), texts(op.outputs));
}

ShardingRule identity(const Operator& op) {
  ShardingRule rule = elementwise(op);
  rule.is_view =
      std::ranges::count(op.node.outputs, graph::no_value) + 1 == std::ssize(op.node.outputs);
  return rule;
}

/// Every device would drop other elements in training.
ShardingRule dropout(const Operator& op) {
  const bool may_train = op.has_input(2) && op.constant_ints(2) != std::vector<std::int64_t>{0};
  return may_train ? replicated(op) : identity(op);
}

ShardingRule cast_like(const Operator& op) {
  const std::string text = letters(op.outputs.front().size());
  return op.rule({text}, {text});
}

}  // namespace autopar::sharding::rules
