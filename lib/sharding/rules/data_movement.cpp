// Operators that copy, reorder or cut elements. A dimension that is cut, joined or repeated is
// whole; one that passes through unchanged splits.

#include <fmt/format.h>

#include <utility>

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

/// First input and output alike in the dimensions that pass through, whole in the others.
ShardingRule pass_through(const graph::Graph& graph, const graph::Node& node,
                          const std::vector<bool>& passes) {
  std::string text = letters(passes.size());
  for (std::size_t d = 0; d < passes.size(); ++d) {
    if (!passes[d]) text[d] = '1';
  }
  return node_rule(graph, node, {text}, {text});
}

/// The dimensions that input `input` names, all in order where it is left out; nullopt where it is
/// no constant.
std::optional<std::vector<std::size_t>> named_dimensions(const graph::Graph& graph,
                                                         const graph::Node& node, std::size_t input,
                                                         std::size_t rank) {
  std::vector<std::size_t> dims;
  if (!has_input(node, input)) {
    for (std::size_t d = 0; d < rank; ++d) dims.push_back(d);
    return dims;
  }
  const auto axes = constant_ints(graph, node, input);
  if (!axes) return std::nullopt;
  for (const std::int64_t axis : *axes) dims.push_back(dimension(axis, rank));
  return dims;
}

}  // namespace

ShardingRule transpose(const graph::Graph& graph, const graph::Node& node) {
  const std::string text = letters(input_shapes(graph, node)[0].size());
  std::string result(text.rbegin(), text.rend());
  const auto permutation = node.ints_attribute("perm", {});
  for (std::size_t d = 0; d < permutation.size(); ++d) {
    result[d] = text[static_cast<std::size_t>(permutation[d])];
  }
  return node_rule(graph, node, {text}, {result});
}

ShardingRule expand(const graph::Graph& graph, const graph::Node& node) {
  const std::string result = letters(output_shapes(graph, node)[0].size());
  const std::string text = aligned(result, input_shapes(graph, node)[0].size());
  ShardingRule rule = node_rule(graph, node, {text}, {result});
  rule.localize = [](LocalNode& local) {
    append_with_ints(local, 1, "shape", local.output_shape(0));
  };
  return rule;
}

/// A dimension that is kept from end to end stays so in every share: starts and ends beyond a
/// share's bounds are clamped to them.
ShardingRule slice(const graph::Graph& graph, const graph::Node& node) {
  const Shape input = input_shapes(graph, node)[0];
  const Shape output = output_shapes(graph, node)[0];
  const auto starts = constant_ints(graph, node, 1);
  const auto sliced = named_dimensions(graph, node, 3, input.size());
  const auto steps = constant_ints(graph, node, 4);
  if (!starts || !sliced || (has_input(node, 4) && !steps)) return replicated_rule(graph, node);
  std::vector<bool> passes(input.size(), true);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const std::size_t d = sliced->at(i);
    passes[d] = input[d] == output[d] && (!steps || steps->at(i) == 1);
  }
  ShardingRule rule = pass_through(graph, node, passes);
  rule.lookup_input = 0;
  return rule;
}

ShardingRule split(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::string text = with_whole(letters(rank), axis_attribute(node, rank, 0));
  return node_rule(graph, node, {text}, std::vector<std::string>(node.outputs.size(), text));
}

ShardingRule concat(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = output_shapes(graph, node)[0].size();
  const std::string text = with_whole(letters(rank), axis_attribute(node, rank, 0));
  return node_rule(graph, node, std::vector<std::string>(node.inputs.size(), text), {text});
}

ShardingRule pad(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const auto pads = constant_ints(graph, node, 1);
  const auto padded = named_dimensions(graph, node, 3, rank);
  if (!pads || !padded) return replicated_rule(graph, node);
  std::vector<bool> passes(rank, true);
  for (std::size_t i = 0; i < padded->size(); ++i) {
    passes[padded->at(i)] = pads->at(i) == 0 && pads->at(i + padded->size()) == 0;
  }
  return pass_through(graph, node, passes);
}

/// A dimension that is repeated splits into repetitions.
ShardingRule tile(const graph::Graph& graph, const graph::Node& node) {
  const Shape input = input_shapes(graph, node)[0];
  const Shape output = output_shapes(graph, node)[0];
  const std::string all = letters(2 * input.size());
  std::string text = all.substr(0, input.size());
  const std::string repeats = all.substr(input.size());
  std::string result;
  std::vector<FactorOptions> options;
  for (std::size_t d = 0; d < input.size(); ++d) {
    if (output[d] == 0) text[d] = '1';
    if (input[d] == output[d] || output[d] == 0) {
      result += text[d];
      continue;
    }
    result += fmt::format("({}{})", repeats[d], text[d]);
    options.push_back({.letter = repeats[d], .size = output[d] / input[d]});
    options.push_back({text[d], FactorKind::whole});
  }
  ShardingRule rule = node_rule(graph, node, {text}, {result}, options);
  if (options.empty()) return rule;
  rule.localize = [input](LocalNode& local) {
    std::vector<std::int64_t> counts;
    for (std::size_t d = 0; d < input.size(); ++d) {
      const std::int64_t extent = local.shard.value(local.node.inputs[0]).shape[d];
      counts.push_back(extent == 0 ? 1 : local.output_shape(0)[d] / extent);
    }
    append_with_ints(local, 1, "repeats", counts);
  };
  return rule;
}

namespace {

/// Space in blocks, `hx` and `wy`, on one side, and channels `c` on the other, which are the major
/// part of what the blocks become only in the order CRD.
std::pair<std::string, std::string> depth_and_space(bool channels_first) {
  return {channels_first ? "n(cb)hw" : "n1hw", channels_first ? "nc(hx)(wy)" : "n1(hx)(wy)"};
}

std::vector<FactorOptions> block_options(std::int64_t block, bool channels_first) {
  std::vector<FactorOptions> options{{'x', FactorKind::whole, false, block},
                                     {'y', FactorKind::whole, false, block}};
  if (channels_first) options.push_back({'b', FactorKind::whole, false, block * block});
  return options;
}

}  // namespace

ShardingRule depth_to_space(const graph::Graph& graph, const graph::Node& node) {
  const bool channels_first = node.string_attribute("mode", "DCR") == "CRD";
  const auto [depth, space] = depth_and_space(channels_first);
  return node_rule(graph, node, {depth}, {space},
                   block_options(node.int_attribute("blocksize", 1), channels_first));
}

ShardingRule space_to_depth(const graph::Graph& graph, const graph::Node& node) {
  const auto [depth, space] = depth_and_space(false);
  return node_rule(graph, node, {space}, {depth},
                   block_options(node.int_attribute("blocksize", 1), false));
}

/// Blocks of all channels, channels major, become an image.
ShardingRule col_to_im(const graph::Graph& graph, const graph::Node& node) {
  const Shape output = output_shapes(graph, node)[0];
  const std::string result = "nc" + std::string(output.size() - 2, '1');
  return node_rule(graph, node, {"n(cb)1"}, {result}, {{'b', FactorKind::whole}});
}

}  // namespace autopar::sharding::rules
