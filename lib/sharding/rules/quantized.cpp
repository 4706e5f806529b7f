// Quantised tensors: scales and zero points split with what they are for.

#include <fmt/format.h>

#include <algorithm>

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

/// The text of an input's scale or zero point: one for all, one for each element of the dimension
/// of this letter, or as many dimensions as the input, broadcast.
std::string scale_text(const Shape& scale, const std::string& input, char letter) {
  if (graph::num_elements(scale) == 1) return whole(scale);
  if (scale.size() == 1)
    return input.find(letter) == std::string::npos ? "1" : std::string(1, letter);
  return aligned(input, scale.size());
}

std::string scale_text(const std::vector<Shape>& shapes, std::size_t input, const std::string& of,
                       char letter) {
  return input < shapes.size() ? scale_text(shapes[input], of, letter) : std::string();
}

/// A matrix product's operands, with batches in front.
struct ProductTexts {
  std::string left;
  std::string right;
  std::string result;
  std::vector<FactorOptions> options;
};

/// No share is empty: then it would have no scales.
ProductTexts product_texts(const Shape& left, const Shape& right, FactorKind sums) {
  const std::size_t rank = std::max({left.size(), right.size(), std::size_t{2}});
  const std::string batch = letters(rank - 2, "mkn");
  ProductTexts texts{left.size() == 1 ? "k" : aligned(batch, left.size() - 2) + "mk",
                     right.size() == 1 ? "k" : aligned(batch, right.size() - 2) + "kn",
                     batch,
                     {{'k', sums}}};
  if (left.size() > 1) texts.options.push_back({'m', FactorKind::spatial, true});
  if (right.size() > 1) texts.options.push_back({'n', FactorKind::spatial, true});
  texts.result += left.size() > 1 ? "m" : "";
  texts.result += right.size() > 1 ? "n" : "";
  return texts;
}

/// Channels are `gc` on the way in and `gm` on the way out; whole groups go to a device.
struct ConvolutionTexts {
  std::string data;
  std::string weights;
  std::string result;
  std::vector<FactorOptions> options;
};

ConvolutionTexts convolution_texts(const Shape& data, FactorKind channels) {
  const std::size_t space = data.size() - 2;
  const std::string loops = letters(2 * space, "ncmg");
  ConvolutionTexts texts{"n(gc)" + std::string(space, '1'),
                         "(gm)c" + loops.substr(0, space),
                         "n(gm)" + loops.substr(space),
                         {{.letter = 'g', .never_empty = true},
                          {.letter = 'c', .kind = channels, .never_empty = true},
                          {.letter = 'm', .never_empty = true}}};
  for (const char letter : loops) texts.options.push_back({letter, FactorKind::whole});
  return texts;
}

/// "(gm)" for one scale a channel.
std::string channel_scale(const std::vector<Shape>& shapes, std::size_t input) {
  if (input >= shapes.size()) return {};
  return graph::num_elements(shapes[input]) == 1 ? whole(shapes[input]) : "(gm)";
}

}  // namespace

/// One scale for all, one for each element of dimension `axis`, or one for each of its blocks,
/// which are whole.
ShardingRule quantize(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> inputs = input_shapes(graph, node);
  const Shape& scale = inputs[1];
  const std::size_t rank = inputs[0].size();
  std::string text = letters(rank);
  if (graph::num_elements(scale) == 1) {
    return node_rule(graph, node, {text, whole(scale), whole(scale)}, {text});
  }
  const std::size_t axis = axis_attribute(node, rank, 1);
  const std::int64_t block = node.int_attribute("block_size", 0);
  if (scale.size() == 1 && block == 0) {
    const std::string by_element(1, text[axis]);
    return node_rule(graph, node, {text, by_element, by_element}, {text});
  }
  const std::int64_t extent = inputs[0][axis];
  if (block == 0 || extent % block != 0) {
    text[axis] = '1';
    return node_rule(graph, node, {text, text, text}, {text});
  }
  const char within = letters(rank + 1).back();
  std::string blocked = text;
  blocked.replace(axis, 1, fmt::format("({}{})", text[axis], within));
  return node_rule(graph, node, {blocked, text, text}, {blocked},
                   {{text[axis], FactorKind::spatial, false, extent / block},
                    {within, FactorKind::whole, false, block}});
}

/// Sums of integers are exact, however they are grouped.
ShardingRule matmul_integer(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> shapes = input_shapes(graph, node);
  const auto [left, right, result, options] = product_texts(shapes[0], shapes[1], FactorKind::sum);
  return node_rule(
      graph, node,
      {left, right, scale_text(shapes, 2, left, 'm'), scale_text(shapes, 3, right, 'n')}, {result},
      options);
}

/// Sums are rounded, and so whole.
ShardingRule qlinear_matmul(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> shapes = input_shapes(graph, node);
  const auto [left, right, result, options] =
      product_texts(shapes[0], shapes[3], FactorKind::whole);
  return node_rule(graph, node,
                   {left, scale_text(shapes, 1, left, 'm'), scale_text(shapes, 2, left, 'm'), right,
                    scale_text(shapes, 4, right, 'n'), scale_text(shapes, 5, right, 'n'),
                    scale_text(shapes, 6, result, 'm'), scale_text(shapes, 7, result, 'm')},
                   {result}, options);
}

ShardingRule convolution_integer(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> shapes = input_shapes(graph, node);
  const ConvolutionTexts texts = convolution_texts(shapes[0], FactorKind::sum);
  ShardingRule rule =
      node_rule(graph, node, {texts.data, texts.weights, "", channel_scale(shapes, 3)},
                {texts.result}, texts.options);
  localize_count(rule, 'g', "group");
  return rule;
}

ShardingRule qlinear_convolution(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> shapes = input_shapes(graph, node);
  const ConvolutionTexts texts = convolution_texts(shapes[0], FactorKind::whole);
  ShardingRule rule = node_rule(graph, node,
                                {texts.data, "", "", texts.weights, channel_scale(shapes, 4),
                                 channel_scale(shapes, 5), "", "", "(gm)"},
                                {texts.result}, texts.options);
  localize_count(rule, 'g', "group");
  return rule;
}

/// A [..., K] by B [N, blocks of K, bytes of a block]. Scales and zero points have a row for each
/// of B, and may be flat: then blocks are whole. Zero points are packed: `p` blocks share a byte.
ShardingRule matmul_n_bits(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> shapes = input_shapes(graph, node);
  const std::int64_t block = node.int_attribute("block_size", 0);
  const std::int64_t depth = node.int_attribute("K", 0);
  const std::int64_t blocks = block > 0 ? depth / block : 0;
  const bool has_zeros = has_input(node, 3);
  const bool packs_zeros = has_zeros && graph.value(node.inputs[3]).type == graph::DataType::uint8;
  const std::int64_t together =
      packs_zeros ? std::max<std::int64_t>(1, 8 / node.int_attribute("bits", 4)) : 1;
  const auto is_flat = [&](std::size_t input) {
    return has_input(node, input) && shapes[input].size() == 1;
  };
  const bool cuts_blocks = blocks > 0 && depth % block == 0 && blocks % together == 0 &&
                           !has_input(node, 4) && !is_flat(2) && !is_flat(3) &&
                           shapes[1].size() == 3;

  const std::string rows = letters(shapes[0].size() - 1, "nkpzuv");
  std::vector<FactorOptions> options{{'n', FactorKind::spatial, true, node.int_attribute("N", 0)}};
  std::string a = "1";
  std::string b = "n" + std::string(shapes[1].size() - 1, '1');
  std::string scales = is_flat(2) ? "(nu)" : "n1";
  std::string zeros = is_flat(3) ? "(nv)" : "n1";
  if (is_flat(2)) options.push_back({'u', FactorKind::whole});
  if (is_flat(3)) options.push_back({'v', FactorKind::whole});
  if (cuts_blocks) {
    a = "(kpz)";
    b = "n(kp)1";
    scales = "n(kp)";
    zeros = packs_zeros ? "nk" : "n(kp)";
    options.push_back({'k', FactorKind::sum, true, blocks / together});
    options.push_back({'p', FactorKind::whole, false, together});
    options.push_back({'z', FactorKind::whole, false, block});
  }
  ShardingRule rule =
      node_rule(graph, node, {rows + a, b, scales, zeros, "", "n"}, {rows + "n"}, options);
  rule.localize = [n = factor_index(rule, 'n'),
                   k = cuts_blocks ? std::optional(factor_index(rule, 'k')) : std::nullopt,
                   step = together * block](LocalNode& local) {
    local.node.attributes["N"] = local.factor_ranges[n].size();
    if (k) {
      local.node.attributes["K"] = local.factor_ranges[*k].size() * step;
      const bool adds_bias = local.factor_ranges[*k].begin == 0;
      if (!adds_bias && local.node.inputs.size() > 5) local.node.inputs.resize(5);
    }
    local.shard.nodes.push_back(local.node);
  };
  return rule;
}

}  // namespace autopar::sharding::rules
