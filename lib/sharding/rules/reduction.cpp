// Reductions over dimensions that a constant input names.

#include "sharding/decomposition.h"
#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {
namespace {

/// The dimensions that are reduced, nullopt where only a run would tell.
std::optional<std::vector<bool>> reduced_dimensions(const graph::Graph& graph,
                                                    const graph::Node& node, std::size_t rank) {
  std::vector<std::int64_t> axes;
  if (has_input(node, 1)) {
    const auto constant = constant_ints(graph, node, 1);
    if (!constant) return std::nullopt;
    axes = *constant;
  }
  if (axes.empty()) {
    return std::vector<bool>(rank, node.int_attribute("noop_with_empty_axes", 0) == 0);
  }
  std::vector<bool> reduced(rank, false);
  for (const std::int64_t axis : axes) reduced[dimension(axis, rank)] = true;
  return reduced;
}

/// Reduced dimensions become factors with these options, or are whole where there are none.
ShardingRule reduction(const graph::Graph& graph, const graph::Node& node,
                       std::optional<FactorOptions> options) {
  const Shape shape = input_shapes(graph, node)[0];
  const auto reduced = reduced_dimensions(graph, node, shape.size());
  if (!reduced) return replicated_rule(graph, node);
  std::string text = letters(shape.size());
  std::string result;
  std::vector<FactorOptions> all_options;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!(*reduced)[d]) {
      result += text[d];
      continue;
    }
    if (node.int_attribute("keepdims", 1) != 0) result += '1';
    if (options) {
      options->letter = text[d];
      all_options.push_back(*options);
    } else {
      text[d] = '1';
    }
  }
  return node_rule(graph, node, {text}, {result}, all_options);
}

graph::DataType type_of(const graph::Graph& graph, const graph::Node& node) {
  return graph.value(node.inputs[0]).type;
}

/// A floating-point extremum over nothing is an infinity; an integer one is undefined. Booleans
/// have no collective.
ShardingRule extremum(const graph::Graph& graph, const graph::Node& node, FactorKind kind) {
  const graph::DataType type = type_of(graph, node);
  if (type == graph::DataType::boolean) return reduction(graph, node, std::nullopt);
  return reduction(
      graph, node,
      FactorOptions{.letter = 0, .kind = kind, .never_empty = !graph::is_floating_point(type)});
}

/// A function of sums, which must be whole before it is taken. `decompose` gets the input, wide,
/// and the dimensions, and keeps these.
ShardingRule of_sums(const graph::Graph& graph, const graph::Node& node,
                     graph::ValueId (*decompose)(Decomposer&, graph::ValueId x,
                                                 const std::vector<std::size_t>& dims)) {
  if (!graph::is_floating_point(type_of(graph, node))) return reduce_whole(graph, node);
  ShardingRule rule =
      reduction(graph, node, FactorOptions{.letter = 0, .kind = FactorKind::normalized});
  const auto reduced = reduced_dimensions(graph, node, input_shapes(graph, node)[0].size());
  if (!reduced) return rule;
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < reduced->size(); ++d) {
    if ((*reduced)[d]) dims.push_back(d);
  }
  rule.decompose = [dims, decompose](Decomposer& ops) {
    const graph::ValueId result = decompose(ops, ops.wide(ops.input(0)), dims);
    const bool keeps = ops.node().int_attribute("keepdims", 1) != 0;
    ops.set_output(
        0, keeps ? result : ops.make("Squeeze", {result, ops.ints({dims.begin(), dims.end()})}));
  };
  return rule;
}

}  // namespace

/// Sums, also of what is first squared or made absolute.
ShardingRule reduce_sum(const graph::Graph& graph, const graph::Node& node) {
  return reduction(graph, node, FactorOptions{.letter = 0, .kind = FactorKind::sum});
}

/// Equal shares make the mean of means the mean; integers would be rounded twice.
ShardingRule reduce_mean(const graph::Graph& graph, const graph::Node& node) {
  if (!graph::is_floating_point(type_of(graph, node))) return reduce_whole(graph, node);
  return reduction(graph, node, FactorOptions{.letter = 0, .kind = FactorKind::mean});
}

ShardingRule reduce_max(const graph::Graph& graph, const graph::Node& node) {
  return extremum(graph, node, FactorKind::max);
}

ShardingRule reduce_min(const graph::Graph& graph, const graph::Node& node) {
  return extremum(graph, node, FactorKind::min);
}

ShardingRule reduce_l2(const graph::Graph& graph, const graph::Node& node) {
  return of_sums(graph, node, [](Decomposer& ops, auto x, const auto& dims) {
    return ops.make("Sqrt", {ops.reduce("ReduceSumSquare", x, dims)});
  });
}

ShardingRule reduce_log_sum(const graph::Graph& graph, const graph::Node& node) {
  return of_sums(graph, node, [](Decomposer& ops, auto x, const auto& dims) {
    return ops.make("Log", {ops.reduce("ReduceSum", x, dims)});
  });
}

/// An infinite maximum is not taken off: infinities have no difference.
ShardingRule reduce_log_sum_exp(const graph::Graph& graph, const graph::Node& node) {
  return of_sums(graph, node, [](Decomposer& ops, auto x, const auto& dims) {
    const auto largest = ops.reduce("ReduceMax", x, dims);
    const auto taken = ops.make("Where", {ops.make("IsInf", {largest}), ops.number(0, x), largest});
    const auto powers = ops.make("Exp", {ops.make("Sub", {x, taken})});
    return ops.make("Add", {ops.make("Log", {ops.reduce("ReduceSum", powers, dims)}), taken});
  });
}

ShardingRule reduce_whole(const graph::Graph& graph, const graph::Node& node) {
  return reduction(graph, node, std::nullopt);
}

}  // namespace autopar::sharding::rules
