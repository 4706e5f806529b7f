// Operators that work along one dimension, and alike for every index of the others.

#include "base/checked.h"
#include "sharding/decomposition.h"
#include "sharding/rules/table.h"

namespace autopar::sharding::rules {
namespace {

/// First input and all outputs alike but whole along the axis; further inputs (k, axes) are whole.
ShardingRule along_axis(const Operator& op, std::size_t axis) {
  const std::string text = with_whole(letters(op.rank()), axis);
  return op.rule({text}, std::vector<std::string>(op.node.outputs.size(), text));
}

/// Input and output alike, of which attribute `axis` names the dimension that is normalised over.
/// `decompose` gets the input, wide, and that dimension.
ShardingRule normalized_axis(const Operator& op,
                             graph::ValueId (*decompose)(Decomposer&, graph::ValueId x,
                                                         const std::vector<std::size_t>& axis)) {
  const std::size_t axis = op.axis(-1);
  const std::string text = letters(op.rank());
  ShardingRule rule = op.rule({text}, {text}, {{text[axis], FactorKind::normalized}});
  rule.decompose = [axis, decompose](Decomposer& ops) {
    ops.set_output(0, decompose(ops, ops.wide(ops.input(0)), {axis}));
  };
  return rule;
}

}  // namespace

ShardingRule softmax(const Operator& op) {
  return normalized_axis(op, [](Decomposer& ops, auto x, const auto& axis) {
    const auto powers = ops.make("Exp", {ops.make("Sub", {x, ops.reduce("ReduceMax", x, axis)})});
    return ops.make("Div", {powers, ops.reduce("ReduceSum", powers, axis)});
  });
}

ShardingRule log_softmax(const Operator& op) {
  return normalized_axis(op, [](Decomposer& ops, auto x, const auto& axis) {
    const auto below = ops.make("Sub", {x, ops.reduce("ReduceMax", x, axis)});
    const auto sum = ops.reduce("ReduceSum", ops.make("Exp", {below}), axis);
    return ops.make("Sub", {below, ops.make("Log", {sum})});
  });
}

/// Elements of norm 0 are all 0, and divided by 1.
ShardingRule lp_normalization(const Operator& op) {
  return normalized_axis(op, [](Decomposer& ops, auto x, const auto& axis) {
    const auto norm = ops.node().int_attribute("p", 2) == 1
                          ? ops.reduce("ReduceL1", x, axis)
                          : ops.make("Sqrt", {ops.reduce("ReduceSumSquare", x, axis)});
    const auto is_zero = ops.make("Equal", {norm, ops.number(0, norm)});
    return ops.make("Div", {x, ops.make("Where", {is_zero, ops.number(1, norm), norm})});
  });
}

ShardingRule along_last_axis(const Operator& op) { return along_axis(op, op.axis(-1)); }

/// Normalised over neighbouring channels.
ShardingRule local_response(const Operator& op) { return along_axis(op, 1); }

ShardingRule split(const Operator& op) { return along_axis(op, op.axis(0)); }

ShardingRule arg_reduction(const Operator& op) {
  const std::size_t axis = op.axis(0);
  const std::string text = with_whole(letters(op.rank()), axis);
  std::string result = text;
  if (op.node.int_attribute("keepdims", 1) == 0) result.erase(axis, 1);
  return op.rule({text}, {result});
}

ShardingRule cum_sum(const Operator& op) {
  const auto axis = op.constant_ints(1);
  if (!axis) return replicated(op);
  return along_axis(op, dimension(axis->front(), op.rank()));
}

/// A share of the rows or columns has another diagonal.
ShardingRule trilu(const Operator& op) {
  const std::size_t rank = op.rank();
  const std::string text = letters(rank);
  const auto diagonal =
      op.has_input(1) ? op.constant_ints(1) : std::optional(std::vector<std::int64_t>{0});
  if (!diagonal) {
    const std::string planes = text.substr(0, rank - 2) + "11";
    return op.rule({planes}, {planes});
  }
  ShardingRule rule = op.rule({text}, {text});
  rule.placed = text.substr(rank - 2);
  rule.localize = [k = diagonal->front(), rows = text[rank - 2],
                   columns = text[rank - 1]](LocalNode& local) {
    // A diagonal beyond the matrix stays beyond its shares.
    const std::int64_t own = saturated_add(k, local.share(rows).begin - local.share(columns).begin);
    local.node.inputs.resize(2, graph::no_value);
    local.node.inputs[1] =
        local.shard.add_constant(local.node.name + "/k", graph::Tensor::of_int64({}, {{own}}));
  };
  return rule;
}

/// Turns a beginning of dimension `time_axis` around, of another length for each batch.
ShardingRule reverse_sequence(const Operator& op) {
  const std::size_t rank = op.rank();
  const std::size_t batch = dimension(op.node.int_attribute("batch_axis", 1), rank);
  const std::size_t time = dimension(op.node.int_attribute("time_axis", 0), rank);
  const std::string text = with_whole(letters(rank), time);
  return op.rule({text, text.substr(batch, 1)}, {text});
}

/// Writes rows of an update into a cache, at another place for each batch.
ShardingRule tensor_scatter(const Operator& op) {
  const std::string text = with_whole(letters(op.rank()), op.axis(-2));
  return op.rule({text, text, text.substr(0, 1)}, {text});
}

/// Transforms dimension `axis`; the last one holds real and imaginary parts.
ShardingRule dft(const Operator& op) {
  const std::size_t rank = op.rank();
  std::int64_t axis = op.node.int_attribute("axis", op.graph.opsets.at("") < 20 ? 1 : -2);
  if (op.has_input(2)) {
    const auto constant = op.constant_ints(2);
    if (!constant) return replicated(op);
    axis = constant->front();
  }
  const std::string text = with_whole(with_whole(letters(rank), rank - 1), dimension(axis, rank));
  return op.rule({text}, {text});
}

/// Operators that mix all of a sample.
ShardingRule samples(const Operator& op) {
  return op.rule({"n" + whole(op.rank() - 1)}, {"n" + whole(op.outputs[0].size() - 1)});
}

/// One number for each matrix.
ShardingRule matrices(const Operator& op) {
  const std::string batch = letters(op.rank() - 2);
  return op.rule({batch + "11"}, {batch});
}

ShardingRule one_hot(const Operator& op) {
  const std::string indices = letters(op.rank());
  std::string result = indices;
  result.insert(dimension(op.node.int_attribute("axis", -1), indices.size() + 1), 1, '1');
  return op.rule({indices}, {result});
}

}  // namespace autopar::sharding::rules
