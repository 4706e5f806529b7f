#pragma once

#include <vector>

#include "sharding/discovery/discovery.h"

namespace autopar::sharding {

/// An operator that is tried, by all of its runs.
struct Experiment {
  const std::vector<OperatorRun>& runs;
  const ShardRunner& runner;

  const graph::Graph& graph() const { return runs.front().graph; }
  const graph::Node& node() const { return runs.front().node(); }
  /// Null where the input is left out.
  const Shape* input_shape(std::size_t input) const;
};

/// Gives a share its part of each integer of the node that counts a loop of `size`.
void apply_count(const LoopCount& count, std::int64_t share, std::int64_t size, graph::Node& node,
                 graph::Graph& shard);

/// Finds the outputs' dimensions and the kind of a split of which size, inputs and count are given,
/// by running equal shares; then whether shares must be even or hold something. False where no kind
/// holds on all runs.
bool try_split(const Experiment& experiment, DiscoveredSplit& split);

}  // namespace autopar::sharding
