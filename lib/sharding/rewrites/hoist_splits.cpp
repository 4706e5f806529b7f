#include "sharding/rewrites/rewrites.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sharding/rules/operator.h"

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
std::optional<int> dimension_of(const TensorFactors& tensor, int factor) {
  for (std::size_t dim = 0; dim < tensor.size(); ++dim) {
    if (std::ranges::find(tensor[dim], factor) == tensor[dim].end()) continue;
    return tensor[dim].size() == 1 ? static_cast<int>(dim) : -1;
  }
  return std::nullopt;
}

/// What makes and reads the values of the graph before it is rewritten.
struct Wiring {
  std::vector<NodeId> producers;
  std::vector<std::vector<NodeId>> consumers;
};

/// Fills `chain` with the operators that make `value`, up to constants in the factor of `dim`;
/// false where one of them cannot be repeated by pieces of it.
bool follow(const Graph& graph, const Wiring& wiring, ValueId value, int dim, Chain& chain) {
  const NodeId producer = wiring.producers[value];
  if (producer == graph::no_node || wiring.consumers[value].size() != 1 ||
      std::ranges::find(graph.outputs, value) != graph.outputs.end()) {
    return false;
  }
  const Node& node = graph.node(producer);
  std::optional<ShardingRule> rule = sharding_rule(graph, node);
  if (!rule || node.outputs.size() != 1 || rule->outputs[0][dim].size() != 1) return false;
  const int factor = rule->outputs[0][dim][0];
  if (rule->factors[factor].kind != FactorKind::spatial) return false;

  bool reaches_constant = false;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::optional<int> input_dim = dimension_of(rule->inputs[i], factor);
    if (!input_dim) continue;
    if (*input_dim < 0) return false;
    if (!graph.is_constant(node.inputs[i]) &&
        !follow(graph, wiring, node.inputs[i], *input_dim, chain)) {
      return false;
    }
    reaches_constant = true;
  }
  if (reaches_constant) chain.push_back({producer, std::move(*rule), factor});
  return reaches_constant;
}

/// The chain above each Split by its NodeId; none for other nodes, or where it cannot be repeated.
std::vector<Chain> find_chains(const Graph& graph) {
  const Wiring wiring{graph::producers(graph), graph::consumers(graph)};
  std::vector<Chain> chains(graph.nodes.size());
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.op_type != "Split" || !node.domain.empty()) continue;
    const std::size_t dim =
        rules::dimension(node.int_attribute("axis", 0), graph.value(node.inputs[0]).shape.size());
    Chain chain;
    if (follow(graph, wiring, node.inputs[0], static_cast<int>(dim), chain))
      chains[id] = std::move(chain);
  }
  return chains;
}

/// One output of a Split, and what is made of the chain above it so far.
struct Piece {
  Range range;                      ///< of the dimension that is split
  std::string suffix;               ///< of names
  std::map<ValueId, ValueId> made;  ///< a value of the chain -> its piece
};

ValueId piece_of_input(Graph& graph, ValueId whole, int dim, Piece& piece) {
  if (const auto made = piece.made.find(whole); made != piece.made.end()) return made->second;
  const graph::Value& value = graph.value(whole);
  std::vector<Range> ranges;
  for (const std::int64_t extent : value.shape) ranges.push_back({0, extent});
  ranges[dim] = piece.range;
  return piece.made[whole] =
             graph.add_constant(value.name + "/" + piece.suffix, value.constant->slice(ranges));
}

/// Appends the operator on the piece, which makes `output`, or a new value for no_value.
void append_piece(Graph& graph, const Node& whole, const Link& link, ValueId output, Piece& piece) {
  LocalNode local{graph, link.rule, whole, {}};
  local.node.name = whole.name + "/" + piece.suffix;
  for (const Factor& factor : link.rule.factors) local.factor_ranges.push_back({0, factor.size});
  local.factor_ranges[link.factor] = piece.range;
  for (std::size_t i = 0; i < whole.inputs.size(); ++i) {
    if (const auto dim = dimension_of(link.rule.inputs[i], link.factor))
      local.node.inputs[i] = piece_of_input(graph, whole.inputs[i], *dim, piece);
  }
  if (output == graph::no_value) {
    graph::Value value = graph.value(whole.outputs[0]);
    const auto dim = dimension_of(link.rule.outputs[0], link.factor);
    require(dim && *dim >= 0, "a hoisted dimension is a factor of its own in every link");
    value.shape[*dim] = piece.range.size();
    value.name += "/" + piece.suffix;
    output = graph.add_value(std::move(value));
  }
  piece.made[whole.outputs[0]] = output;
  local.node.outputs[0] = output;
  append_local(std::move(local));
}

/// Appends the chain once for each output of the Split.
void repeat(Graph& graph, const std::vector<Node>& nodes, const Chain& chain, const Node& split) {
  const int dim = dimension_of(chain.back().rule.outputs[0], chain.back().factor).value();
  std::int64_t begin = 0;
  for (const ValueId output : split.outputs) {
    const std::int64_t end = begin + graph.value(output).shape[dim];
    Piece piece{{begin, end}, graph.value(output).name, {}};
    begin = end;
    for (const Link& link : chain) {
      const bool is_last = &link == &chain.back();
      append_piece(graph, nodes[link.node], link, is_last ? output : graph::no_value, piece);
    }
  }
}

}  // namespace

void hoist_splits(Graph& graph) {
  const std::vector<Chain> chains = find_chains(graph);
  std::vector<bool> is_repeated(graph.nodes.size(), false);
  for (const Chain& chain : chains) {
    for (const Link& link : chain) is_repeated[link.node] = true;
  }
  std::vector<Node> nodes = std::exchange(graph.nodes, {});
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    if (is_repeated[id]) continue;
    if (chains[id].empty()) {
      graph.nodes.push_back(std::move(nodes[id]));
    } else {
      repeat(graph, nodes, chains[id], nodes[id]);
    }
  }
  graph::remove_dead_nodes(graph);
}

}  // namespace autopar::sharding
