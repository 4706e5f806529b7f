// Changes of shape that move no element. All have make_reshape_rule's factors; they differ in how
// the new shape is told.

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {

/// Flatten and Unsqueeze, which say the same whatever the local shape.
ShardingRule change_of_rank(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> inputs = input_shapes(graph, node);
  ShardingRule rule = make_reshape_rule(inputs[0], output_shapes(graph, node)[0]);
  for (std::size_t i = 1; i < inputs.size(); ++i) rule.inputs.emplace_back(inputs[i].size());
  return rule;
}

/// The shape input becomes the local one; `allowzero`, since a share may be empty.
ShardingRule reshape(const graph::Graph& graph, const graph::Node& node) {
  ShardingRule rule = change_of_rank(graph, node);
  rule.localize = [](LocalNode& local) {
    local.node.attributes["allowzero"] = std::int64_t{1};
    append_with_ints(local, 1, "shape", local.output_shape(0));
  };
  return rule;
}

/// The global shape tells axes that are left out: a local extent of 1 may be a share.
ShardingRule squeeze(const graph::Graph& graph, const graph::Node& node) {
  ShardingRule rule = change_of_rank(graph, node);
  if (has_input(node, 1)) return rule;
  std::vector<std::int64_t> axes;
  const Shape shape = input_shapes(graph, node)[0];
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) axes.push_back(static_cast<std::int64_t>(d));
  }
  rule.localize = [axes](LocalNode& local) {
    local.node.inputs.resize(2, graph::no_value);
    append_with_ints(local, 1, "axes", axes);
  };
  return rule;
}

}  // namespace autopar::sharding::rules
