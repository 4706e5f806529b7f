// Normalisations. Dimensions that statistics are taken over are split by decomposing.

#include "sharding/decomposition.h"
#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

using graph::ValueId;

/// `letters` as factors that are normalised over.
std::vector<FactorOptions> normalized(std::string_view letters) {
  std::vector<FactorOptions> options;
  for (const char letter : letters) options.push_back({letter, FactorKind::normalized});
  return options;
}

std::vector<std::size_t> dimensions_from(std::size_t first, std::size_t rank) {
  std::vector<std::size_t> dims;
  for (std::size_t d = first; d < rank; ++d) dims.push_back(d);
  return dims;
}

/// Over the dimensions; 1 / sqrt(mean of squares + epsilon).
ValueId inverse_root(Decomposer& ops, ValueId x, const std::vector<std::size_t>& dims) {
  const ValueId epsilon = ops.number(ops.node().float_attribute("epsilon", 1e-5F), x);
  const ValueId squares = ops.mean("ReduceSumSquare", x, dims);
  return ops.make("Reciprocal", {ops.make("Sqrt", {ops.make("Add", {squares, epsilon})})});
}

/// y * scale + bias, as far as there are any.
ValueId affine(Decomposer& ops, ValueId y, ValueId scale, ValueId bias) {
  if (scale != graph::no_value) y = ops.make("Mul", {y, ops.wide(scale)});
  if (bias != graph::no_value) y = ops.make("Add", {y, ops.wide(bias)});
  return y;
}

/// A vector of one element a channel, with as many dimensions behind the channels as `places`.
ValueId by_channel(Decomposer& ops, ValueId vector, std::size_t places) {
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < places; ++d) axes.push_back(static_cast<std::int64_t>(d) + 1);
  return places == 0 ? vector : ops.make("Unsqueeze", {vector, ops.ints(axes)});
}

/// (x - mean) / sqrt(variance + epsilon)
ValueId standardized(Decomposer& ops, ValueId x, const std::vector<std::size_t>& dims) {
  x = ops.make("Sub", {x, ops.mean("ReduceSum", x, dims)});
  return ops.make("Mul", {x, inverse_root(ops, x, dims)});
}

}  // namespace

/// Statistics over `axis` and all further dimensions; the further outputs are these.
ShardingRule layer_normalization(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> shapes = input_shapes(graph, node);
  const std::size_t rank = shapes[0].size();
  const std::size_t axis = axis_attribute(node, rank, -1);
  const std::string text = letters(rank);
  const std::string statistics = text.substr(0, axis) + std::string(rank - axis, '1');
  std::vector<std::string> inputs;
  for (const Shape& shape : shapes) inputs.push_back(aligned(text, shape.size()));
  std::vector<std::string> outputs(node.outputs.size(), statistics);
  outputs.front() = text;
  ShardingRule rule = node_rule(graph, node, inputs, outputs, normalized(text.substr(axis)));
  rule.decompose = [dims = dimensions_from(axis, rank)](Decomposer& ops) {
    ValueId x = ops.wide(ops.input(0));
    ValueId mean = graph::no_value;
    if (ops.node().op_type == "LayerNormalization") {
      mean = ops.mean("ReduceSum", x, dims);
      x = ops.make("Sub", {x, mean});
    }
    const ValueId inverse = inverse_root(ops, x, dims);
    ops.set_output(0, affine(ops, ops.make("Mul", {x, inverse}), ops.input(1), ops.input(2)));
    ops.set_output(1, mean);
    ops.set_output(2, inverse);
  };
  return rule;
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
  const std::string text = letters(rank);
  const std::string channel(1, text[1]);
  ShardingRule rule =
      node_rule(graph, node, {text, channel, channel}, {text}, normalized(text.substr(2)));
  rule.decompose = [dims = dimensions_from(2, rank)](Decomposer& ops) {
    ops.set_output(0, affine(ops, standardized(ops, ops.wide(ops.input(0)), dims),
                             by_channel(ops, ops.input(1), dims.size()),
                             by_channel(ops, ops.input(2), dims.size())));
  };
  return rule;
}

/// Whole groups go to a device, or shares of a single one, or of places.
ShardingRule group_normalization(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::string places = letters(rank - 2, "ngc");
  const std::string text = "n(gc)" + places;
  const std::int64_t groups = node.int_attribute("num_groups", 1);
  std::vector<FactorOptions> options = normalized(places);
  options.push_back({.letter = 'g', .never_empty = true, .size = groups});
  options.push_back({'c', groups == 1 ? FactorKind::normalized : FactorKind::whole});
  options.push_back({'n', FactorKind::spatial, true});
  ShardingRule rule = node_rule(graph, node, {text, "(gc)", "(gc)"}, {text}, options);
  localize_count(rule, 'g', "num_groups");
  rule.decompose = [dims = dimensions_from(2, rank + 1), groups](Decomposer& ops) {
    const Shape whole = ops.shape(ops.input(0));
    Shape grouped = whole;
    grouped[1] = groups;
    grouped.insert(grouped.begin() + 2, whole[1] / groups);
    const ValueId x = ops.make("Reshape", {ops.wide(ops.input(0)), ops.ints(grouped)});
    const ValueId y = ops.make("Reshape", {standardized(ops, x, dims), ops.ints(whole)});
    const std::size_t behind = whole.size() - 2;
    ops.set_output(0, affine(ops, y, by_channel(ops, ops.input(1), behind),
                             by_channel(ops, ops.input(2), behind)));
  };
  return rule;
}

}  // namespace autopar::sharding::rules
