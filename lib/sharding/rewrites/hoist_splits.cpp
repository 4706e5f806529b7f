#include "sharding/rewrites/hoist_splits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sharding/sharding_rule.h"

namespace autopar::sharding {

namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// An operator below the Split that is to be repeated once a piece.
struct Link {
  NodeId node = graph::no_node;
  ShardingRule rule;
  int factor = 0;  ///< of the rule: the dimension that is split
};

/// The operators from the constants down to the Split, in topological order.
using Chain = std::vector<Link>;

/// The dimension of the tensor that is the factor and nothing else; nullopt where it is in none,
/// -1 where it shares a dimension with other factors.
std::optional<int> dimension_of(const std::vector<std::vector<int>>& tensor, int factor) {
  for (std::size_t dim = 0; dim < tensor.size(); ++dim) {
    if (std::ranges::find(tensor[dim], factor) == tensor[dim].end()) continue;
    return tensor[dim].size() == 1 ? static_cast<int>(dim) : -1;
  }
  return std::nullopt;
}

class Hoister {
 public:
  explicit Hoister(Graph& graph)
      : graph_(graph), producers_(graph::producers(graph)), consumers_(graph::consumers(graph)) {}

  void run() {
    std::vector<Chain> chains(graph_.nodes.size());
    std::vector<bool> repeated(graph_.nodes.size(), false);
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      if (node.op_type != "Split" || !node.domain.empty()) continue;
      const auto rank = static_cast<std::int64_t>(graph_.value(node.inputs[0]).shape.size());
      const std::int64_t axis = node.int_attribute("axis", 0);
      const auto dim = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
      Chain chain;
      if (!follow(node.inputs[0], dim, chain)) continue;
      for (const Link& link : chain) repeated[static_cast<std::size_t>(link.node)] = true;
      chains[id] = std::move(chain);
    }

    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (std::size_t id = 0; id < nodes.size(); ++id) {
      if (repeated[id]) continue;
      if (chains[id].empty()) {
        graph_.nodes.push_back(std::move(nodes[id]));
      } else {
        repeat(nodes, chains[id], nodes[id]);
      }
    }
    graph::remove_dead_nodes(graph_);
  }

 private:
  /// Fills `chain` with the operators that make `value`, up to constants in the factor of `dim`;
  /// false where one of them cannot be repeated by pieces of it.
  bool follow(ValueId value, std::size_t dim, Chain& chain) const {
    const NodeId producer = producers_[static_cast<std::size_t>(value)];
    if (producer == graph::no_node || consumers_[static_cast<std::size_t>(value)].size() != 1 ||
        std::ranges::find(graph_.outputs, value) != graph_.outputs.end()) {
      return false;
    }
    const Node& node = graph_.node(producer);
    std::optional<ShardingRule> rule = sharding_rule(graph_, node);
    if (!rule || node.outputs.size() != 1 || rule->outputs[0][dim].size() != 1) return false;
    const int factor = rule->outputs[0][dim][0];
    if (rule->factors[static_cast<std::size_t>(factor)].kind != FactorKind::spatial) return false;

    bool reaches_constant = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::optional<int> input_dim = dimension_of(rule->inputs[i], factor);
      if (!input_dim) continue;
      if (*input_dim < 0) return false;
      if (!graph_.is_constant(node.inputs[i]) &&
          !follow(node.inputs[i], static_cast<std::size_t>(*input_dim), chain)) {
        return false;
      }
      reaches_constant = true;
    }
    if (reaches_constant) chain.push_back({producer, std::move(*rule), factor});
    return reaches_constant;
  }

  /// Appends the chain once for each output of the Split.
  void repeat(const std::vector<Node>& nodes, const Chain& chain, const Node& split) {
    const auto& last_rule = chain.back().rule;
    const std::size_t dim =
        static_cast<std::size_t>(dimension_of(last_rule.outputs[0], chain.back().factor).value());
    std::int64_t begin = 0;
    for (const ValueId output : split.outputs) {
      const std::int64_t extent = graph_.value(output).shape[dim];
      const std::string suffix = graph_.value(output).name;  // a copy: values are added below
      const Range piece{begin, begin + extent};
      begin = piece.end;
      std::map<ValueId, ValueId> piece_of;  // a value of the chain -> its piece
      for (const Link& link : chain) {
        const bool last = &link == &chain.back();
        append_piece(nodes[static_cast<std::size_t>(link.node)], link, piece, suffix,
                     last ? output : graph::no_value, piece_of);
      }
    }
  }

  void append_piece(const Node& whole, const Link& link, Range piece, const std::string& suffix,
                    ValueId output, std::map<ValueId, ValueId>& piece_of) {
    LocalNode local{graph_, whole, {}};
    local.node.name = whole.name + "/" + suffix;
    for (const Factor& factor : link.rule.factors) local.factor_ranges.push_back({0, factor.size});
    local.factor_ranges[static_cast<std::size_t>(link.factor)] = piece;
    for (std::size_t i = 0; i < whole.inputs.size(); ++i) {
      if (const auto dim = dimension_of(link.rule.inputs[i], link.factor)) {
        local.node.inputs[i] = piece_of_input(whole.inputs[i], *dim, piece, suffix, piece_of);
      }
    }
    if (output == graph::no_value) {
      graph::Value value = graph_.value(whole.outputs[0]);
      const auto dim = dimension_of(link.rule.outputs[0], link.factor);
      require(dim && *dim >= 0, "a hoisted dimension is a factor of its own in every link");
      value.shape[static_cast<std::size_t>(*dim)] = piece.size();
      value.name += "/" + suffix;
      output = graph_.add_value(std::move(value));
    }
    piece_of[whole.outputs[0]] = output;
    local.node.outputs[0] = output;
    if (link.rule.localize) {
      link.rule.localize(local);
    } else {
      graph_.nodes.push_back(std::move(local.node));
    }
  }

  ValueId piece_of_input(ValueId whole, int dim, Range piece, const std::string& suffix,
                         std::map<ValueId, ValueId>& piece_of) {
    if (const auto made = piece_of.find(whole); made != piece_of.end()) return made->second;
    const graph::Value& value = graph_.value(whole);
    std::vector<Range> ranges;
    for (const std::int64_t extent : value.shape) ranges.push_back({0, extent});
    ranges[static_cast<std::size_t>(dim)] = piece;
    const ValueId made =
        graph_.add_constant(value.name + "/" + suffix, value.constant->slice(ranges));
    piece_of[whole] = made;
    return made;
  }

  Graph& graph_;
  std::vector<NodeId> producers_;
  std::vector<std::vector<NodeId>> consumers_;
};

}  // namespace

void hoist_splits(Graph& graph) { Hoister(graph).run(); }

}  // namespace autopar::sharding
