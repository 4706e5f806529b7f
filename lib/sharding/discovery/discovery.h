#pragma once

#include <string>
#include <vector>

#include "sharding/discovery/rule_proof.h"
#include "sharding/discovery/shard_runner.h"
#include "sharding/sharding_rule.h"

/// Finds out how an operator can be split by running it on small inputs, whole and in shares, after
/// the idea of Hidet's RFC on distributed inference.
///
/// A *split* is a loop of the operator of some size: at most one dimension of each input has it as
/// its major part, and so are the outputs' dimensions whose shares then come out; or the shares'
/// outputs reduce to the whole's. Sizes are the extents of the inputs and the integers among the
/// attributes, and only dimensions that are multiples of a size may have it: so few sets of
/// dimensions are tried. Where the operator does not run on a share as it is, what counts the loop
/// is sought: an attribute (a number of heads or groups), or an element of a constant input (a
/// shape).
namespace autopar::sharding {

/// Integers of the node that count a loop: a share has its part of each.
struct LoopCount {
  std::vector<std::string> attributes;
  int input = -1;  ///< a constant of integers, or none
  std::size_t element = 0;

  bool any() const { return input >= 0 || !attributes.empty(); }
};

/// Gives a share its part of each integer of the node that counts a loop of `size`.
void apply_count(const LoopCount& count, std::int64_t share, std::int64_t size, graph::Node& node,
                 graph::Graph& shard);

struct DiscoveredSplit {
  std::int64_t size = 0;
  FactorKind kind = FactorKind::spatial;
  std::vector<int> inputs;   ///< by input of the node: the dimension, or -1
  std::vector<int> outputs;  ///< by output: the dimension; -1 where reduced, or the same everywhere
  bool even = false;
  bool never_empty = false;
  LoopCount count;
};

struct Discovery {
  std::vector<DiscoveredSplit> splits;   ///< in the order in which a rule takes them
  std::vector<std::vector<int>> linear;  ///< as ShardingRule::linear, minimal groups
};

/// What holds on all the given runs of one operator, which differ in their inputs' numbers. Those
/// must be random for inputs that are numbers. A set of dimensions is not reported beside a part of
/// it.
Discovery discover(const std::vector<OperatorRun>& runs, const ShardRunner& runner);

/// The rule that allows these splits, the first for each dimension of each tensor where they
/// compete: what makes shares of outputs comes before what reduces, whole dimensions before parts.
ShardingRule rule_of(const Discovery& discovery, const graph::Graph& graph,
                     const graph::Node& node);

/// "S0R,R->S0R": how the split lies on one mesh axis, before a reduction.
std::string to_string(const DiscoveredSplit& split, const graph::Graph& graph,
                      const graph::Node& node);

}  // namespace autopar::sharding
