// RNN, GRU, LSTM: samples and directions split. What a step computes needs the whole state of the
// step before.

#include "sharding/rules/rule_text.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding::rules {

ShardingRule recurrent(const graph::Graph& graph, const graph::Node& node) {
  const bool batch_first = node.int_attribute("layout", 0) != 0;
  // Each direction has its own activations: that would take more than a name.
  const bool by_direction = node.has_attribute("activations") ||
                            node.has_attribute("activation_alpha") ||
                            node.has_attribute("activation_beta");
  const std::string d = by_direction ? "1" : "d";
  const std::string state = batch_first ? "b" + d + "1" : d + "b1";
  const std::string weights = d + "11";
  ShardingRule rule = node_rule(
      graph, node,
      {batch_first ? "b11" : "1b1", weights, weights, d + "1", "b", state, state, d + "1"},
      {batch_first ? "b1" + d + "1" : "1" + d + "b1", state, state},
      by_direction ? std::vector<FactorOptions>{}
                   : std::vector<FactorOptions>{{.letter = 'd', .never_empty = true}});
  if (by_direction || node.string_attribute("direction", "forward") != "bidirectional") {
    return rule;
  }
  rule.localize = [directions = factor_index(rule, 'd')](LocalNode& local) {
    const Range share = local.factor_ranges[directions];
    if (share.size() == 1) {
      local.node.attributes["direction"] = std::string(share.begin == 0 ? "forward" : "reverse");
    }
    local.shard.nodes.push_back(local.node);
  };
  return rule;
}

}  // namespace autopar::sharding::rules
