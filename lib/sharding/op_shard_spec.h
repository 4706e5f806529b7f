#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sharding/sharding_rule.h"
#include "sharding/symmetric_axes.h"

namespace autopar::sharding {

/// What is done to an output whose local values are partial.
enum class ReduceFunction { none, all_reduce, reduce_scatter };
std::string_view name_of(ReduceFunction function);  ///< "none", "all-reduce", "reduce-scatter"
ReduceFunction parse_reduce_function(std::string_view name);

/// By factor of a rule: mesh axes, major first.
using FactorAxes = std::vector<std::vector<int>>;

/// One choice for one operator: it reads its inputs in these specs, computes with the same operator
/// on local shards, and leaves its outputs in these specs after the reduce functions.
struct OpShardSpec {
  FactorAxes factor_axes;
  std::vector<TensorShardSpec> inputs;
  std::vector<TensorShardSpec> computed;  ///< outputs as the operator leaves them, maybe partial
  std::vector<TensorShardSpec> outputs;   ///< outputs after `reductions`
  std::vector<ReduceFunction> reductions;

  friend bool operator==(const OpShardSpec&, const OpShardSpec&) = default;
};

/// "MatMul-like" text for messages: "RS0,S0R->RR all-reduce".
std::string to_string(const OpShardSpec& spec);

/// Which partial values an operator may take and leave; by default none.
struct PartialUse {
  std::vector<std::size_t> groups;  ///< of ShardingRule::linear: these may be partial
  std::vector<bool> kept;           ///< by output: it may stay partial; outputs beyond may not
  bool reduces_later = true;        ///< what partial inputs give may be reduced by the operator

  bool may_keep(std::size_t output) const { return output < kept.size() && kept[output]; }
};

/// Every way to run the operator on the mesh: each axis splits one factor, those of one factor in
/// any order, or a group of inputs is partial over it, or neither; where outputs are partial,
/// all-reduce, or reduce-scatter onto each dimension that can take it, or they are kept.
/// Deterministic order, replicated first. Splits that would break a rule (`whole`, `even`,
/// `never_empty`, a dimension of several factors split other than evenly from its major one) are
/// left out. With symmetric axes, strategies that differ only in which of them they use, or in the
/// order of axes, are enumerated once.
std::vector<OpShardSpec> enumerate_op_shard_specs(const ShardingRule& rule, const DeviceMesh& mesh,
                                                  std::span<const Shape> inputs,
                                                  std::span<const Shape> outputs,
                                                  const PartialUse& partial = {},
                                                  const SymmetricAxes& symmetric = {});
std::vector<OpShardSpec> enumerate_op_shard_specs(const graph::Graph& graph,
                                                  const graph::Node& node, const ShardingRule& rule,
                                                  const DeviceMesh& mesh,
                                                  const PartialUse& partial = {},
                                                  const SymmetricAxes& symmetric = {});

/// Those that read the inputs in these specs, none of them partial, in the same order; an input
/// that is left out has an empty one.
std::vector<OpShardSpec> op_shard_specs_reading(const graph::Graph& graph, const graph::Node& node,
                                                const ShardingRule& rule, const DeviceMesh& mesh,
                                                std::span<const TensorShardSpec> inputs);

/// Those that use all mesh axes but the `free` ones as the plan does: in the same places of
/// factors, inputs and outputs. The others are not enumerated. Axes that split a factor as in the
/// plan stand in its order; a free one may stand anywhere among them, several behind them.
std::vector<OpShardSpec> op_shard_specs_near(const graph::Graph& graph, const graph::Node& node,
                                             const ShardingRule& rule, const DeviceMesh& mesh,
                                             const PartialUse& partial, const OpShardSpec& plan,
                                             std::span<const int> free);

/// Each tensor's canonical spec by itself: which axes two tensors share is lost.
OpShardSpec canonical(OpShardSpec strategy, const SymmetricAxes& symmetric);
/// Those of enumerate_op_shard_specs that have the inputs and outputs of this canonical one. On
/// more than three mesh axes, those of one factor ascend where the rule allows that.
std::vector<OpShardSpec> op_shard_specs_like(const graph::Graph& graph, const graph::Node& node,
                                             const ShardingRule& rule, const DeviceMesh& mesh,
                                             const PartialUse& partial, const OpShardSpec& form,
                                             const SymmetricAxes& symmetric);

/// Every spec without partial values that splits each dimension by some of the axes, replicated
/// first: the ways in which an input or a weight may lie. With symmetric axes, the canonical ones.
std::vector<TensorShardSpec> enumerate_tensor_shard_specs(const Shape& shape,
                                                          const DeviceMesh& mesh,
                                                          const SymmetricAxes& symmetric = {});

/// This rank's share of each factor under a choice.
std::vector<Range> factor_ranges(const ShardingRule& rule, const FactorAxes& factor_axes,
                                 const DeviceMesh& mesh, int rank);

/// Whether a `normalized` factor is split, so that the operator runs decomposed.
bool splits_normalized(const ShardingRule& rule, const FactorAxes& factor_axes);

}  // namespace autopar::sharding
