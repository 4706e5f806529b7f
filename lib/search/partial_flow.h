#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "search/pins.h"
#include "sharding/op_shard_spec.h"

namespace autopar::search {

/// By NodeId; nullopt for an operator without a rule.
using NodeRules = std::vector<std::optional<sharding::ShardingRule>>;

/// Finds which values of a graph may be kept partial, so that strategies are enumerated for these
/// alone. A value may where
/// - its producer can leave it partial: it sums over a factor, or is linear in such values,
/// - every operator that reads it can take it so (else it is reduced for that one in any case, and
///   the others may as well read what is reduced),
/// - some operator behind it makes one pending sum of two, or of a larger one: elsewhere reducing
///   later costs what reducing at once does.
/// Where a pin names partial values, one reader is enough and nothing need be won.
class PartialFlow {
 public:
  PartialFlow(const graph::Graph& graph, const NodeRules& rules, const Pins& pins);

  /// What the operator may take and leave.
  sharding::PartialUse use_of(graph::NodeId id) const;

 private:
  const graph::Node& node(graph::NodeId id) const { return graph_.node(id); }
  bool is_kept(graph::ValueId id) const {
    return id != graph::no_value && kept_[static_cast<std::size_t>(id)];
  }
  const std::vector<std::vector<int>>& groups_of(graph::NodeId id) const;
  bool may_take(graph::NodeId id, const std::vector<int>& group) const;
  bool keeps_all_outputs(graph::NodeId id) const;
  bool wins_by(graph::NodeId id, const std::vector<int>& group) const;
  bool can_make(graph::NodeId id, std::size_t output) const;
  bool can_be_read(graph::ValueId id) const;
  bool reads_partial(graph::NodeId id, graph::ValueId value) const;
  bool drop_where_impossible(graph::NodeId id);
  void settle();

  const graph::Graph& graph_;
  const NodeRules& rules_;
  const bool is_forced_;
  std::vector<std::vector<graph::NodeId>> readers_;
  std::vector<bool> kept_;  ///< by ValueId
};

}  // namespace autopar::search
