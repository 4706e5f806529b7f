#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "sharding/op_shard_spec.h"

namespace autopar::search {

/// By NodeId; nullopt for an operator without a rule.
using NodeRules = std::vector<std::optional<sharding::ShardingRule>>;
NodeRules rules_of(const graph::Graph& graph);

enum class KeepPartial {
  never,
  where_it_may_save,
  anywhere,  ///< that it can be: for pins
};

/// Finds which values of a graph may be kept partial, so that strategies are enumerated for these
/// alone. A value can be kept where its producer can leave it partial (it sums over a factor, or is
/// linear in such values) and an operator that reads it is linear in it. That may save something
/// where
/// - every operator that reads it can take it so: else it is reduced for one of them in any case,
///   and the others may as well read what is reduced,
/// - some operator behind it makes one pending sum of several: of two with different origins, or of
///   its own and those that it adds up. Elsewhere reducing later costs what reducing at once does,
/// - the operators up to there multiply no matrices: those had better split their own sum, and with
///   it their arithmetic.
class PartialFlow {
 public:
  /// Keeps references to `graph` and `rules`.
  PartialFlow(const graph::Graph& graph, const NodeRules& rules, KeepPartial keep);

  /// The partial values that the operator may take and leave.
  sharding::PartialUse use_of(graph::NodeId id) const;

 private:
  using Group = std::vector<int>;

  void settle();
  bool drop_outputs(graph::NodeId id);
  bool can_be_made(graph::NodeId id) const;
  bool can_be_read(graph::ValueId value) const;
  bool reads_partial(graph::NodeId id, graph::ValueId value) const;
  bool can_take(graph::NodeId id, const Group& group) const;
  bool is_worth_taking(graph::NodeId id, const Group& group) const;
  bool keeps_all_outputs(graph::NodeId id) const;
  bool joins(graph::NodeId id, const Group& group) const;
  void set_origins(graph::NodeId id);

  bool is_kept(graph::ValueId value) const;
  std::vector<graph::ValueId> values_of(graph::NodeId id, const Group& group) const;
  const std::vector<Group>& groups_of(graph::NodeId id) const;

  const graph::Graph& graph_;
  const NodeRules& rules_;
  const bool is_forced_;
  std::vector<std::vector<graph::NodeId>> readers_;
  std::vector<bool> sums_;        ///< by NodeId: leaves pending sums of its own
  std::vector<bool> multiplies_;  ///< by NodeId: of products
  std::vector<bool> kept_;        ///< by ValueId
  /// By ValueId: the value in which the pending sum began, by a sum or by a join of two.
  std::vector<graph::ValueId> origins_;
};

}  // namespace autopar::search
