// Operators of autopar's own (graph/own_operators.h).

#include "sharding/rules/own.h"

#include "sharding/rules/rule_text.h"

namespace autopar::sharding::rules {

/// Rows, and trees where votes are added up.
ShardingRule tree_sums(const graph::Graph& graph, const graph::Node& node) {
  const bool adds = node.string_attribute("aggregate", "SUM") == "SUM";
  return node_rule(graph, node, {"n1", "t1", "t1", "t1", "t11", "t1", "t1"}, {"n1"},
                   {{'t', adds ? FactorKind::sum : FactorKind::whole}});
}

/// Experts, `e`, are a sum, since a row of another's expert is zeros here; columns, `n`; and the
/// depth by blocks, `k`: each is `y` bytes of `z` numbers. One block for all may be cut between
/// bytes; of zero points, `p` share a byte.
ShardingRule expert_matmul_n_bits(const graph::Graph& graph, const graph::Node& node) {
  const std::vector<Shape> shapes = input_shapes(graph, node);
  const std::int64_t bits = node.int_attribute("bits", 4);
  const std::int64_t blocks = shapes[3][2];
  const std::int64_t bytes = shapes[2][2];
  const bool has_zeros = has_input(node, 4);
  const std::int64_t together = has_zeros && blocks > 1 ? 8 / bits : 1;
  const bool is_one_block = blocks == 1;
  const std::int64_t block_bytes = node.int_attribute("block_size", 0) * bits / 8;
  const bool cuts = is_one_block || (blocks * block_bytes == bytes && blocks % together == 0);
  std::vector<FactorOptions> options{{'e', FactorKind::sum, true},
                                     {'n', FactorKind::spatial, true}};
  std::vector<std::string> inputs{"r1", "r", "en1", "en1", "en1", "en"};
  if (cuts && is_one_block) {
    inputs = {"r(kz)", "r", "enk", "en1", "en1", "en"};
    options.push_back({'k', FactorKind::sum, true, bytes});
    options.push_back({'z', FactorKind::whole, false, 8 / bits});
  } else if (cuts) {
    inputs = {"r(kpz)", "r", "en(kpy)", "en(kp)", "enk", "en"};
    options.push_back({'k', FactorKind::sum, true, blocks / together});
    options.push_back({'p', FactorKind::whole, false, together});
    options.push_back({'y', FactorKind::whole, false, bytes / blocks});
    options.push_back({'z', FactorKind::whole, false, shapes[0][1] / blocks});
  }
  ShardingRule rule = node_rule(graph, node, inputs, {"rn"}, options);
  rule.localize = [e = factor_index(rule, 'e'),
                   k = cuts ? std::optional(factor_index(rule, 'k')) : std::nullopt,
                   experts = shapes[2][0]](LocalNode& local) {
    const Range own = local.factor_ranges[e];
    if (own.size() < experts) {
      const graph::Value indices = local.shard.value(local.node.inputs[1]);
      const graph::ValueId first = local.shard.add_constant(
          local.node.name + "/first_expert", graph::Tensor::of_int64({}, std::span(&own.begin, 1)));
      const graph::ValueId shifted = local.shard.add_value(
          {local.node.name + "/own_expert", indices.type, indices.shape, std::nullopt});
      local.shard.nodes.push_back({local.node.name + "/own_expert",
                                   "Sub",
                                   "",
                                   {local.node.inputs[1], first},
                                   {shifted},
                                   {}});
      local.node.inputs[1] = shifted;
    }
    const bool adds_bias = !k || local.factor_ranges[*k].begin == 0;
    if (!adds_bias && local.node.inputs.size() > 5) local.node.inputs.resize(5);
    local.shard.nodes.push_back(local.node);
  };
  return rule;
}

}  // namespace autopar::sharding::rules
