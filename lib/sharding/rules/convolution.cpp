// Convolutions, pooling and resampling. Dimensions of space are whole: their shares would need
// their neighbours' borders.

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

/// Batch and channels, where they are not resized. `sizes` becomes the local one.
ShardingRule resize(const graph::Graph& graph, const graph::Node& node) {
  const Shape input = input_shapes(graph, node)[0];
  const Shape output = output_shapes(graph, node)[0];
  if (node.string_attribute("keep_aspect_ratio_policy", "stretch") != "stretch" ||
      node.string_attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    return replicated_rule(graph, node);
  }
  std::string text = letters(input.size());
  for (std::size_t d = 0; d < text.size(); ++d) {
    if (d >= 2 || input[d] != output[d]) text[d] = '1';
  }
  ShardingRule rule = node_rule(graph, node, {text}, {text});
  if (!has_input(node, 3)) return rule;
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < input.size(); ++d) dims.push_back(d);
  if (node.has_attribute("axes")) {
    dims.clear();
    for (const std::int64_t axis : node.ints_attribute("axes", {})) {
      dims.push_back(dimension(axis, input.size()));
    }
  }
  rule.localize = [dims](LocalNode& local) {
    std::vector<std::int64_t> sizes;
    for (const std::size_t d : dims) sizes.push_back(local.output_shape(0)[d]);
    append_with_ints(local, 3, "sizes", sizes);
  };
  return rule;
}

/// Operators that mix channels and space but no samples.
ShardingRule batch_only(const graph::Graph& graph, const graph::Node& node) {
  const std::string text = "n" + std::string(input_shapes(graph, node)[0].size() - 1, '1');
  return node_rule(graph, node, {text}, {text});
}

}  // namespace autopar::sharding::rules
