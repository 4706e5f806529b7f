// RNN, GRU, LSTM: samples and directions split. What a step computes needs the whole state of the
// step before.

#include "sharding/rules/table.h"

namespace autopar::sharding::rules {

ShardingRule recurrent(const Operator& op) {
  const bool batch_first = op.node.int_attribute("layout", 0) != 0;
  // Each direction has its own activations: that would take more than a name.
  const bool by_direction = op.node.has_attribute("activations") ||
                            op.node.has_attribute("activation_alpha") ||
                            op.node.has_attribute("activation_beta");
  const std::string d = by_direction ? "1" : "d";
  const std::string state = batch_first ? "b" + d + "1" : d + "b1";
  const std::string weights = d + "11";
  ShardingRule rule =
      op.rule({batch_first ? "b11" : "1b1", weights, weights, d + "1", "b", state, state, d + "1"},
              {batch_first ? "b1" + d + "1" : "1" + d + "b1", state, state},
              options_of(by_direction ? "" : "d", FactorKind::spatial, true));
  if (by_direction || op.node.string_attribute("direction", "forward") != "bidirectional")
    return rule;
  rule.placed = "d";
  rule.localize = [](LocalNode& local) {
    const Range share = local.share('d');
    if (share.size() == 1)
      local.node.attributes["direction"] = std::string(share.begin == 0 ? "forward" : "reverse");
  };
  return rule;
}

}  // namespace autopar::sharding::rules
