// Operators that work along one dimension, and alike for every index of the others.

#include "sharding/decomposition.h"
#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

/// First input and all outputs alike but whole along the axis; further inputs (k, axes) are whole.
ShardingRule along_axis(const graph::Graph& graph, const graph::Node& node, std::size_t axis) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::string text = with_whole(letters(rank), axis);
  return node_rule(graph, node, {text}, std::vector<std::string>(node.outputs.size(), text));
}

/// Input and output alike, of which attribute `axis` names the dimension that is normalised over.
/// `decompose` gets the input, wide, and that dimension.
ShardingRule normalized_axis(const graph::Graph& graph, const graph::Node& node,
                             graph::ValueId (*decompose)(Decomposer&, graph::ValueId x,
                                                         const std::vector<std::size_t>& axis)) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::size_t axis = axis_attribute(node, rank, -1);
  const std::string text = letters(rank);
  ShardingRule rule =
      node_rule(graph, node, {text}, {text}, {{text[axis], FactorKind::normalized}});
  rule.decompose = [axis, decompose](Decomposer& ops) {
    ops.set_output(0, decompose(ops, ops.wide(ops.input(0)), {axis}));
  };
  return rule;
}

}  // namespace

ShardingRule softmax(const graph::Graph& graph, const graph::Node& node) {
  return normalized_axis(graph, node, [](Decomposer& ops, auto x, const auto& axis) {
    const auto powers = ops.make("Exp", {ops.make("Sub", {x, ops.reduce("ReduceMax", x, axis)})});
    return ops.make("Div", {powers, ops.reduce("ReduceSum", powers, axis)});
  });
}

ShardingRule log_softmax(const graph::Graph& graph, const graph::Node& node) {
  return normalized_axis(graph, node, [](Decomposer& ops, auto x, const auto& axis) {
    const auto below = ops.make("Sub", {x, ops.reduce("ReduceMax", x, axis)});
    const auto sum = ops.reduce("ReduceSum", ops.make("Exp", {below}), axis);
    return ops.make("Sub", {below, ops.make("Log", {sum})});
  });
}

/// Elements of norm 0 are all 0, and divided by 1.
ShardingRule lp_normalization(const graph::Graph& graph, const graph::Node& node) {
  return normalized_axis(graph, node, [](Decomposer& ops, auto x, const auto& axis) {
    const auto norm = ops.node().int_attribute("p", 2) == 1
                          ? ops.reduce("ReduceL1", x, axis)
                          : ops.make("Sqrt", {ops.reduce("ReduceSumSquare", x, axis)});
    const auto is_zero = ops.make("Equal", {norm, ops.number(0, norm)});
    return ops.make("Div", {x, ops.make("Where", {is_zero, ops.number(1, norm), norm})});
  });
}

ShardingRule along_last_axis(const graph::Graph& graph, const graph::Node& node) {
  return along_axis(graph, node, axis_attribute(node, input_shapes(graph, node)[0].size(), -1));
}

ShardingRule arg_reduction(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::size_t axis = axis_attribute(node, rank, 0);
  const std::string text = with_whole(letters(rank), axis);
  std::string result = text;
  if (node.int_attribute("keepdims", 1) == 0) result.erase(axis, 1);
  return node_rule(graph, node, {text}, {result});
}

ShardingRule cum_sum(const graph::Graph& graph, const graph::Node& node) {
  const auto axis = constant_ints(graph, node, 1);
  if (!axis) return replicated_rule(graph, node);
  return along_axis(graph, node, dimension(axis->front(), input_shapes(graph, node)[0].size()));
}

/// A share of the rows or columns has another diagonal.
ShardingRule trilu(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::string text = letters(rank);
  const auto diagonal = has_input(node, 1) ? constant_ints(graph, node, 1)
                                           : std::optional(std::vector<std::int64_t>{0});
  if (!diagonal) {
    const std::string planes = text.substr(0, rank - 2) + "11";
    return node_rule(graph, node, {planes}, {planes});
  }
  ShardingRule rule = node_rule(graph, node, {text}, {text});
  rule.localize = [k = diagonal->front(), rows = factor_index(rule, text[rank - 2]),
                   columns = factor_index(rule, text[rank - 1])](LocalNode& local) {
    const std::int64_t own =
        k + local.factor_ranges[rows].begin - local.factor_ranges[columns].begin;
    local.node.inputs.resize(2, graph::no_value);
    local.node.inputs[1] = local.shard.add_constant(
        local.node.name + "/k", graph::Tensor::of_int64({}, std::span(&own, 1)));
    local.shard.nodes.push_back(local.node);
  };
  return rule;
}

/// Turns a beginning of dimension `time_axis` around, of another length for each batch.
ShardingRule reverse_sequence(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::size_t batch = dimension(node.int_attribute("batch_axis", 1), rank);
  const std::size_t time = dimension(node.int_attribute("time_axis", 0), rank);
  const std::string text = with_whole(letters(rank), time);
  return node_rule(graph, node, {text, text.substr(batch, 1)}, {text});
}

/// Writes rows of an update into a cache, at another place for each batch.
ShardingRule tensor_scatter(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  const std::string text = with_whole(letters(rank), axis_attribute(node, rank, -2));
  return node_rule(graph, node, {text, text, text.substr(0, 1)}, {text});
}

/// Transforms dimension `axis`; the last one holds real and imaginary parts.
ShardingRule dft(const graph::Graph& graph, const graph::Node& node) {
  const std::size_t rank = input_shapes(graph, node)[0].size();
  std::int64_t axis = node.int_attribute("axis", graph.opsets.at("") < 20 ? 1 : -2);
  if (has_input(node, 2)) {
    const auto constant = constant_ints(graph, node, 2);
    if (!constant) return replicated_rule(graph, node);
    axis = constant->front();
  }
  const std::string text = with_whole(with_whole(letters(rank), rank - 1), dimension(axis, rank));
  return node_rule(graph, node, {text}, {text});
}

/// Operators that mix all of a sample.
ShardingRule samples(const graph::Graph& graph, const graph::Node& node) {
  const std::string rest(input_shapes(graph, node)[0].size() - 1, '1');
  const std::string result_rest(output_shapes(graph, node)[0].size() - 1, '1');
  return node_rule(graph, node, {"n" + rest}, {"n" + result_rest});
}

/// One number for each matrix.
ShardingRule matrices(const graph::Graph& graph, const graph::Node& node) {
  const std::string batch = letters(input_shapes(graph, node)[0].size() - 2);
  return node_rule(graph, node, {batch + "11"}, {batch});
}

ShardingRule one_hot(const graph::Graph& graph, const graph::Node& node) {
  const std::string indices = letters(input_shapes(graph, node)[0].size());
  std::string result = indices;
  result.insert(axis_attribute(node, indices.size() + 1, -1), 1, '1');
  return node_rule(graph, node, {indices}, {result});
}

}  // namespace autopar::sharding::rules
