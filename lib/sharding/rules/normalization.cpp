// Normalisations. Dimensions that statistics are taken over are split by decomposing.

#include <numeric>

#include "sharding/decomposition.h"
#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
namespace {

using graph::ValueId;

std::vector<std::size_t> dimensions_from(std::size_t first, std::size_t rank) {
  std::vector<std::size_t> dims(rank - first);
  std::iota(dims.begin(), dims.end(), first);
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
  std::vector<std::int64_t> axes(places);
  std::iota(axes.begin(), axes.end(), 1);
  return places == 0 ? vector : ops.make("Unsqueeze", {vector, ops.ints(axes)});
}

/// (x - mean) / sqrt(variance + epsilon)
ValueId standardized(Decomposer& ops, ValueId x, const std::vector<std::size_t>& dims) {
  x = ops.make("Sub", {x, ops.mean("ReduceSum", x, dims)});
  return ops.make("Mul", {x, inverse_root(ops, x, dims)});
}

}  // namespace

/// Statistics over `axis` and all further dimensions; the further outputs are these.
ShardingRule layer_normalization(const Operator& op) {
  const std::size_t axis = op.axis(-1);
  const std::string text = letters(op.rank());
  const std::string statistics = text.substr(0, axis) + whole(op.rank() - axis);
  std::vector<std::string> inputs;
  for (const Shape& shape : op.inputs) inputs.push_back(aligned(text, shape.size()));
  std::vector<std::string> outputs(op.node.outputs.size(), statistics);
  outputs.front() = text;
  ShardingRule rule =
      op.rule(inputs, outputs, options_of(text.substr(axis), FactorKind::normalized));
  rule.decompose = [dims = dimensions_from(axis, op.rank())](Decomposer& ops) {
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
ShardingRule batch_normalization(const Operator& op) {
  const std::size_t rank = op.rank();
  if (rank < 2) return replicated(op);
  std::string text = letters(rank);
  const std::string channel(1, text[1]);
  if (op.node.int_attribute("training_mode", 0) != 0) {
    text = "1" + channel + whole(rank - 2);
  }
  return op.rule({text, channel, channel, channel, channel}, {text, channel, channel});
}

/// Statistics over `axes`.
ShardingRule mean_variance_normalization(const Operator& op) {
  std::string text = letters(op.rank());
  for (const std::int64_t axis : op.node.ints_attribute("axes", {0, 2, 3}))
    text[dimension(axis, op.rank())] = '1';
  return op.rule({text}, {text});
}

ShardingRule instance_normalization(const Operator& op) {
  const std::string text = letters(op.rank());
  const std::string channel(1, text[1]);
  ShardingRule rule =
      op.rule({text, channel, channel}, {text}, options_of(text.substr(2), FactorKind::normalized));
  rule.decompose = [dims = dimensions_from(2, op.rank())](Decomposer& ops) {
    ops.set_output(0, affine(ops, standardized(ops, ops.wide(ops.input(0)), dims),
                             by_channel(ops, ops.input(1), dims.size()),
                             by_channel(ops, ops.input(2), dims.size())));
  };
  return rule;
}

/// Whole groups go to a device, or shares of a single one, or of places.
ShardingRule group_normalization(const Operator& op) {
  const std::string places = letters(op.rank() - 2, "ngc");
  const std::string text = "n(gc)" + places;
  const std::int64_t groups = op.node.int_attribute("num_groups", 1);
  std::vector<FactorOptions> options = options_of(places, FactorKind::normalized);
  options.push_back({.letter = 'g', .never_empty = true, .size = groups});
  options.push_back({'c', groups == 1 ? FactorKind::normalized : FactorKind::whole});
  options.push_back({'n', FactorKind::spatial, true});
  ShardingRule rule =
      with_count(op.rule({text, "(gc)", "(gc)"}, {text}, options), 'g', "num_groups");
  rule.decompose = [dims = dimensions_from(2, op.rank() + 1), groups](Decomposer& ops) {
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
