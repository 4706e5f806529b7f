#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "sharding/tensor_shard_spec.h"

namespace autopar::sharding {

class Decomposer;

/// A spatial factor's shares make shares of the output; a reduction's make partial outputs. So do a
/// `normalized` one's make shares (or outputs without it), but only once the ranks have told each
/// other statistics over all of it: ShardingRule::decompose. A `whole` factor is never split.
enum class FactorKind { spatial, sum, max, min, mean, normalized, whole };

/// How the shares of a reduction factor become one; nullopt for other kinds.
std::optional<Reduce> reduce_of(FactorKind kind);

/// One loop of the operator, as an einsum letter is.
struct Factor {
  char letter = 0;
  std::int64_t size = 1;
  FactorKind kind = FactorKind::spatial;
  /// Splits must give every device an equal share (a mean, or a dimension of several factors).
  bool even = false;
  /// Splits must give every device at least one element.
  bool never_empty = false;
};

struct LocalNode;

/// By dimension of a tensor: the factors that make it up, major first; none for a dimension of size
/// 1 or one that no factor names.
using TensorFactors = std::vector<std::vector<int>>;
bool holds(const TensorFactors& tensor, int factor);

/// What one operator instance allows. Split a factor over a mesh axis, split every tensor's
/// dimension that holds it accordingly, and the same operator on the local shards computes the
/// output's shards (or its partial values, for a reduction).
struct ShardingRule {
  std::vector<Factor> factors;
  std::vector<TensorFactors> inputs;  ///< those left out have no dimensions
  std::vector<TensorFactors> outputs;
  /// Groups of inputs in which the operator is jointly linear: where all of a group hold partial
  /// sums over a mesh axis, and no other input uses that axis, the outputs are partial sums over
  /// it.
  std::vector<std::vector<int>> linear;
  /// Changes no byte, only the shape: free at run time.
  bool is_view = false;
  /// An input that is looked up: no more of it is read than the outputs hold. -1 for none.
  int lookup_input = -1;
  /// Makes the node the operator on local shards, where the node itself is not (a constant shape
  /// input, an attribute that counts heads), and appends to the shard what it needs before it (an
  /// index offset). The shapes of what it appends follow from the extents of the node's local
  /// tensors and from which shares of `placed` factors begin at 0, so that ranks that are alike in
  /// these need the same memory.
  std::function<void(LocalNode&)> localize;
  /// Letters of the factors of which `localize` asks where a rank's share begins.
  std::string placed;
  /// Writes the operators that replace this one where a `normalized` factor is split: their
  /// reductions make the statistics.
  std::function<void(Decomposer&)> decompose;
};

/// One rank's copy of a node while its shard is written, as a rule's `localize` sees it.
struct LocalNode {
  graph::Graph& shard;
  const ShardingRule& rule;
  /// The node with the shard's value ids for inputs and outputs; attributes still the global ones.
  graph::Node node;
  /// This rank's share of each factor, by factor index.
  std::vector<Range> factor_ranges;

  /// How much this rank has of the factor of that letter.
  std::int64_t extent(char letter) const { return range_of(letter).size(); }
  /// This rank's share of a placed factor.
  Range share(char letter) const;
  /// Shape of output `i` in the shard.
  const Shape& output_shape(std::size_t i) const { return shard.value(node.outputs[i]).shape; }

 private:
  const Range& range_of(char letter) const;
};

/// Appends the node to its shard, as the rule localizes it.
void append_local(LocalNode local);

/// What a rule's text leaves open of a factor.
struct FactorOptions {
  char letter;
  FactorKind kind = FactorKind::spatial;
  bool never_empty = false;
  std::int64_t size = -1;  ///< where no shape tells it: a number of heads or groups
};

/// Makes a rule from einsum-like text, one group a tensor: "mk,kn->mn", several outputs after
/// further commas; a dimension of several factors in parentheses, "b(hd)->bhd"; `1` for a
/// dimension that no factor names; nothing between commas for a tensor that is left out or a
/// scalar. Letters that are in an input but no output must be given a reduction kind with
/// `options`, e.g. {{'k', FactorKind::sum}}; letters default to spatial. A mean is always `even`.
/// Sizes come from the shapes; a size that only a product tells (of several factors in one
/// dimension) is found from the tensors where the letter stands alone. A dimension of size 1 that
/// is broadcast against a larger factor is recognised and holds no factor. Throws InternalError
/// where text and shapes do not match.
ShardingRule make_rule(std::string_view text, std::span<const Shape> inputs,
                       std::span<const Shape> outputs, std::span<const FactorOptions> options = {});

/// The rule of a change of shape that moves no element, from `input` to `output`: factors are the
/// common divisors of both shapes, major first, as far as they have some. Has one input and one
/// output.
ShardingRule make_reshape_rule(const Shape& input, const Shape& output);

/// The rule of this operator instance, from the table in sharding/rules or else from what was
/// discovered (sharding/discovery/discovered_rules.h); nullopt where neither has one.
std::optional<ShardingRule> sharding_rule(const graph::Graph& graph, const graph::Node& node);

/// The rule of an operator that cannot be split: every dimension whole.
ShardingRule replicated_rule(const graph::Graph& graph, const graph::Node& node);

/// sharding_rule, or replicated_rule where there is none.
ShardingRule rule_or_replicated(const graph::Graph& graph, const graph::Node& node);

/// Shapes of a node's inputs and outputs; no dimensions for those left out.
std::vector<Shape> input_shapes(const graph::Graph& graph, const graph::Node& node);
std::vector<Shape> output_shapes(const graph::Graph& graph, const graph::Node& node);

}  // namespace autopar::sharding
