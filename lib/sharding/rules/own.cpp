// Operators of autopar's own (graph/own_operators.h).

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {

/// Rows, and trees where votes are added up.
ShardingRule tree_sums(const Operator& op) {
  const bool adds = op.node.string_attribute("aggregate", "SUM") == "SUM";
  return op.rule({"n1", "t1", "t1", "t1", "t11", "t1", "t1"}, {"n1"},
                 {{'t', adds ? FactorKind::sum : FactorKind::whole}});
}

/// Experts, `e`, are a sum, since a row of another's expert is zeros here; columns, `n`; and the
/// depth by blocks, `k`: each is `y` bytes of `z` numbers. One block for all may be cut between
/// bytes; of zero points, `p` share a byte.
ShardingRule expert_matmul_n_bits(const Operator& op) {
  const std::int64_t bits = op.node.int_attribute("bits", 4);
  const std::int64_t blocks = op.inputs[3][2];
  const std::int64_t bytes = op.inputs[2][2];
  const std::int64_t together = op.has_input(4) && blocks > 1 ? 8 / bits : 1;
  const bool is_one_block = blocks == 1;
  const std::int64_t block_bytes = op.node.int_attribute("block_size", 0) * bits / 8;
  const bool cuts =
      blocks > 0 && (is_one_block || (blocks * block_bytes == bytes && blocks % together == 0));
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
    options.push_back({'z', FactorKind::whole, false, op.inputs[0][1] / blocks});
  }
  ShardingRule rule = op.rule(inputs, {"rn"}, options);
  rule.placed = cuts ? "ek" : "e";
  rule.localize = [cuts, experts = op.inputs[2][0]](LocalNode& local) {
    const Range own = local.share('e');
    if (own.size() < experts) {
      const graph::Value indices = local.shard.value(local.node.inputs[1]);
      const graph::ValueId first = local.shard.add_constant(
          local.node.name + "/first_expert", graph::Tensor::of_int64({}, {{own.begin}}));
      const std::string name = local.node.name + "/own_expert";
      const graph::ValueId shifted =
          local.shard.add_value({name, indices.type, indices.shape, std::nullopt});
      local.shard.nodes.push_back({name, "Sub", "", {local.node.inputs[1], first}, {shifted}, {}});
      local.node.inputs[1] = shifted;
    }
    if (cuts) add_bias_once(local, 'k', 5);
  };
  return rule;
}

}  // namespace autopar::sharding::rules
