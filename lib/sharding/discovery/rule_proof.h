#pragma once

#include <string>
#include <vector>

#include "sharding/discovery/shard_runner.h"
#include "sharding/op_shard_spec.h"
#include "sharding/sharding_rule.h"

namespace autopar::sharding {

/// An operator with what it is run on.
struct OperatorRun {
  graph::Graph graph;                 ///< of one node; inputs that are no constants are its inputs
  std::vector<graph::Tensor> inputs;  ///< by graph.inputs
  std::vector<Numbers> outputs;       ///< by graph.outputs: what the whole operator makes of them

  const graph::Node& node() const { return graph.nodes.front(); }
};

/// nullopt where the operator does not run on these inputs.
std::optional<OperatorRun> run_whole(const graph::Graph& graph, std::vector<graph::Tensor> inputs,
                                     const ShardRunner& runner);

/// Every way in which the rule lets the operator run, partial inputs and outputs included.
std::vector<OpShardSpec> all_choices(const ShardingRule& rule, const OperatorRun& run,
                                     const DeviceMesh& mesh);

/// Runs every rank's share as the rule writes it, and puts the results together. Empty where they
/// are the whole operator's, else what is wrong: a rank that is refused, or an output.
std::string disproof(const ShardingRule& rule, const OpShardSpec& choice, const DeviceMesh& mesh,
                     const OperatorRun& run, const ShardRunner& runner);

}  // namespace autopar::sharding
