#pragma once

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

/// The partial values that each operator may take and leave, by NodeId, so that strategies are
/// enumerated for these alone. A value can be kept partial where its producer can leave it so (it
/// sums over a factor, or is linear in such values) and an operator that reads it is linear in it.
/// That may save something where
/// - every operator that reads it can take it so: else it is reduced for one of them in any case,
///   and the others may as well read what is reduced,
/// - some operator behind it makes one pending sum of several: of two with different origins, or of
///   its own and those that it adds up. Elsewhere reducing later costs what reducing at once does,
/// - the operators up to there multiply no matrices: those had better split their own sum, and with
///   it their arithmetic.
std::vector<sharding::PartialUse> partial_uses(const graph::Graph& graph, const NodeRules& rules,
                                               KeepPartial keep);

}  // namespace autopar::search
