// Normalisations: whatever statistics are taken over is whole.

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {

/// LayerNormalization and RMSNormalization: statistics over `axis` and all further dimensions.
ShardingRule layer_normalization(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> shapes = input_shapes(graph, node);
  const std::size_t rank = shapes[0].size();
  const std::size_t axis = axis_attribute(node, rank, -1);
  const std::string text = letters(axis) + std::string(rank - axis, '1');
  std::vector<std::string> inputs;
  for (const Shape& shape : shapes) inputs.push_back(aligned(text, shape.size()));
  std::vector<std::string> outputs;
  for (const Shape& shape : output_shapes(graph, node)) {
    outputs.push_back(aligned(text, shape.size()));
  }
  return node_rule(graph, node, inputs, outputs);
}

/// At inference the statistics are inputs, so everything splits; in training channels do.
ShardingRule batch_normalization(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  if (rank < 2) return replicated_rule(graph, node);
  std::string text = letters(rank);
  const std::string channel(1, text[1]);
  if (node.int_attribute("training_mode", 0) != 0) {
    text = "1" + channel + std::string(rank - 2, '1');
  }
  return node_rule(graph, node, {text, channel, channel, channel, channel},
                   {text, channel, channel});
}

/// Statistics over `axes`.
ShardingRule mean_variance_normalization(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  std::string text = letters(rank);
  for (const std::int64_t axis : node.ints_attribute("axes", {0, 2, 3})) {
    text[dimension(axis, rank)] = '1';
  }
  return node_rule(graph, node, {text}, {text});
}

ShardingRule instance_normalization(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::string text = "nc" + std::string(rank - 2, '1');
  return node_rule(graph, node, {text, "c", "c"}, {text});
}

/// Whole groups go to a device. Up to opset 20 scale and bias are given by group.
ShardingRule group_normalization(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::string text = "n(gc)" + std::string(rank - 2, '1');
  const std::string scale = graph.opsets.at("") < 21 ? "g" : "(gc)";
  const std::int64_t groups = node.int_attribute("num_groups", 1);
  ShardingRule rule = node_rule(graph, node, {text, scale, scale}, {text},
                                {{.letter = 'g', .never_empty = true, .size = groups},
                                 {'c', FactorKind::whole},
                                 {'n', FactorKind::spatial, true}});
  localize_count(rule, 'g', "num_groups");
  return rule;
}

}  // namespace autopar::sharding::rules
