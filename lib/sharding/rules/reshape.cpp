// Changes of shape that move no element. All have make_reshape_rule's factors; they differ in how
// the new shape is told.

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {

/// Flatten and Unsqueeze, which say the same whatever the local shape.
ShardingRule change_of_rank(const Operator& op) {
  ShardingRule rule = make_reshape_rule(op.inputs[0], op.outputs[0]);
  for (std::size_t i = 1; i < op.inputs.size(); ++i) rule.inputs.emplace_back(op.inputs[i].size());
  return rule;
}

/// The shape input becomes the local one; `allowzero`, since a share may be empty.
ShardingRule reshape(const Operator& op) {
  ShardingRule rule = change_of_rank(op);
  rule.localize = [](LocalNode& local) {
    local.node.attributes["allowzero"] = std::int64_t{1};
    set_ints(local, 1, "shape", local.output_shape(0));
  };
  return rule;
}

/// The global shape tells axes that are left out: a local extent of 1 may be a share.
ShardingRule squeeze(const Operator& op) {
  ShardingRule rule = change_of_rank(op);
  if (op.has_input(1)) return rule;
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < op.rank(); ++d) {
    if (op.inputs[0][d] == 1) axes.push_back(static_cast<std::int64_t>(d));
  }
  rule.localize = [axes](LocalNode& local) {
    local.node.inputs.resize(2, graph::no_value);
    set_ints(local, 1, "axes", axes);
  };
  return rule;
}

}  // namespace autopar::sharding::rules
