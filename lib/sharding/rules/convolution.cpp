// Convolutions and pooling. Dimensions of space are whole: their shares would need their
// neighbours' borders.

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

/// The letters of one kind of loop over space: all whole, but counted as arithmetic.
void make_whole(const std::string& loops, std::vector<FactorOptions>& options) {
  for (const char letter : loops) options.push_back({letter, FactorKind::whole});
}

/// Channels are `gc` on the way in and `gm` on the way out. Whole groups go to a device, which
/// then has fewer; with one group, input channels sum and output channels split.
ShardingRule grouped(const graph::Graph& graph, const graph::Node& node,
                     const std::vector<std::string>& inputs, const std::string& output,
                     std::vector<FactorOptions> options) {
  options.push_back({.letter = 'g', .never_empty = true});
  options.push_back({.letter = 'c', .kind = FactorKind::sum, .never_empty = true});
  options.push_back({.letter = 'm', .never_empty = true});
  ShardingRule rule = node_rule(graph, node, inputs, {output}, options);
  rule.localize = [group = factor_index(rule, 'g'),
                   channel = factor_index(rule, 'c')](LocalNode& local) {
    local.node.attributes["group"] = local.factor_ranges[group].size();
    if (local.factor_ranges[channel].begin != 0) local.node.inputs.resize(2);
    local.shard.nodes.push_back(local.node);
  };
  return rule;
}

}  // namespace

ShardingRule convolution(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t space = input_shapes(graph, node)[0].size() - 2;
  const std::string loops = letters(2 * space, "ncmg");
  const std::string kernel = loops.substr(0, space);
  const std::string places = loops.substr(space);
  std::vector<FactorOptions> options;
  make_whole(loops, options);
  return grouped(graph, node, {"n(gc)" + std::string(space, '1'), "(gm)c" + kernel, "(gm)"},
                 "n(gm)" + places, options);
}

ShardingRule transposed_convolution(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t space = input_shapes(graph, node)[0].size() - 2;
  const std::string loops = letters(2 * space, "ncmg");
  const std::string kernel = loops.substr(0, space);
  const std::string places = loops.substr(space);
  std::vector<FactorOptions> options;
  make_whole(loops, options);
  return grouped(graph, node, {"n(gc)" + places, "(gc)m" + kernel, "(gm)"},
                 "n(gm)" + std::string(space, '1'), options);
}

/// MaxPool's second output counts positions over the whole tensor, so nothing splits beside it.
ShardingRule pool(const graph::Graph& graph, const graph::Node& node) {
  if (has_output(node, 1)) return replicated_rule(graph, node);
  const std::string text = "nc" + std::string(input_shapes(graph, node)[0].size() - 2, '1');
  return node_rule(graph, node, {text}, {text});
}

namespace {

/// The mean or the extremum of all places.
ShardingRule global_pool_by(const graph::Graph& graph, const graph::Node& node, FactorKind kind) {
  const std::size_t space = input_shapes(graph, node)[0].size() - 2;
  const std::string places = letters(space, "nc");
  std::vector<FactorOptions> options;
  for (const char place : places) options.push_back({place, kind, true});
  return node_rule(graph, node, {"nc" + places}, {"nc" + std::string(space, '1')}, options);
}

}  // namespace

ShardingRule global_average_pool(const graph::Graph& graph, const graph::Node& node) {
  return global_pool_by(graph, node, FactorKind::mean);
}

ShardingRule global_max_pool(const graph::Graph& graph, const graph::Node& node) {
  return global_pool_by(graph, node, FactorKind::max);
}

/// Normalised over neighbouring channels.
ShardingRule local_response(const graph::Graph& graph, const graph::Node& node) {
  const std::string text = with_whole(letters(input_shapes(graph, node)[0].size()), 1);
  return node_rule(graph, node, {text}, {text});
}

/// Offsets and mask tell by place where each channel's window looks: with one group of them,
/// channels split as in any convolution.
ShardingRule deformable_convolution(const graph::Graph& graph, const graph::Node& node) {
  const std::string places(input_shapes(graph, node)[0].size() - 2, '1');
  const std::string by_place = "n1" + places;
  if (node.int_attribute("offset_group", 1) != 1) {
    return node_rule(graph, node, {by_place, "", by_place, "", by_place}, {by_place});
  }
  ShardingRule rule =
      node_rule(graph, node, {"n(gc)" + places, "(gm)c" + places, by_place, "(gm)", by_place},
                {"n(gm)" + places},
                {{'g', FactorKind::spatial, true, node.int_attribute("group", 1)},
                 {'c', FactorKind::sum, true},
                 {'m', FactorKind::spatial, true}});
  rule.localize = [group = factor_index(rule, 'g'),
                   channel = factor_index(rule, 'c')](LocalNode& local) {
    local.node.attributes["group"] = local.factor_ranges[group].size();
    const bool adds_bias = local.factor_ranges[channel].begin == 0;
    if (!adds_bias && local.node.inputs.size() > 3) local.node.inputs[3] = graph::no_value;
    local.shard.nodes.push_back(local.node);
  };
  return rule;
}

}  // namespace autopar::sharding::rules
