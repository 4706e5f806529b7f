// Quantised tensors: scales and zero points split with what they are for.

#include <algorithm>

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {

/// One scale for all, one for each element of dimension `axis`, or one for each of its blocks,
/// which are whole.
ShardingRule quantize(const Operator& op) {
  std::string text = letters(op.rank());
  const Shape& scale = op.inputs[1];
  if (graph::num_elements(scale) == 1) return op.rule({text}, {text});
  const std::size_t axis = op.axis(1);
  const std::int64_t block = op.node.int_attribute("block_size", 0);
  if (scale.size() == 1 && block == 0) {
    const std::string by_element(1, text[axis]);
    return op.rule({text, by_element, by_element}, {text});
  }
  const std::int64_t extent = op.inputs[0][axis];
  if (block == 0 || extent % block != 0) {
    text[axis] = '1';
    return op.rule({text, text, text}, {text});
  }
  const char within = letters(op.rank() + 1).back();
  std::string blocked = text;
  blocked.replace(axis, 1, {'(', text[axis], within, ')'});
  return op.rule({blocked, text, text}, {blocked},
                 {{text[axis], FactorKind::spatial, false, extent / block},
                  {within, FactorKind::whole, false, block}});
}

/// A [..., K] by B [N, blocks of K, bytes of a block]. Scales and zero points have a row for each
/// of B, and may be flat: then blocks are whole. Zero points are packed: `p` blocks share a byte.
ShardingRule matmul_n_bits(const Operator& op) {
  const std::int64_t block = op.node.int_attribute("block_size", 0);
  const std::int64_t depth = op.node.int_attribute("K", 0);
  const std::int64_t blocks = block > 0 ? depth / block : 0;
  const bool packs_zeros =
      op.has_input(3) && op.graph.value(op.node.inputs[3]).type == graph::DataType::uint8;
  const std::int64_t together =
      packs_zeros ? std::max<std::int64_t>(1, 8 / op.node.int_attribute("bits", 4)) : 1;
  const auto is_flat = [&](std::size_t input) {
    return op.has_input(input) && op.inputs[input].size() == 1;
  };
  const bool cuts_blocks = blocks > 0 && depth % block == 0 && blocks % together == 0 &&
                           !op.has_input(4) && !is_flat(2) && !is_flat(3) &&
                           op.inputs[1].size() == 3;

  const std::string rows = letters(op.inputs[0].size() - 1, "nkpzuv");
  std::vector<FactorOptions> options{
      {'n', FactorKind::spatial, true, op.node.int_attribute("N", 0)}};
  std::string a = "1";
  std::string b = "n" + whole(op.inputs[1].size() - 1);
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
  ShardingRule rule = op.rule({rows + a, b, scales, zeros, "", "n"}, {rows + "n"}, options);
  if (cuts_blocks) rule.placed = "k";
  rule.localize = [cuts_blocks, step = together * block](LocalNode& local) {
    local.node.attributes["N"] = local.extent('n');
    if (!cuts_blocks) return;
    local.node.attributes["K"] = local.extent('k') * step;
    add_bias_once(local, 'k', 5);
  };
  return rule;
}

}  // namespace autopar::sharding::rules
