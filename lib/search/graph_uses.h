#pragma once

#include <cstddef>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"

namespace autopar::search {

/// Who makes and reads a graph's values, and how long they live. Time 0 is at rest; operator i runs
/// at time i + 1.
struct GraphUses {
  struct Reader {
    graph::NodeId node;
    std::size_t input;
  };
  std::vector<graph::NodeId> producers;      ///< by ValueId
  std::vector<std::vector<Reader>> readers;  ///< by ValueId, in the order in which they run
  std::vector<int> last_use;                 ///< by ValueId
  int horizon = 0;                           ///< one past the last time
};

/// A value without memory of its own (CostModel::takes_memory) keeps what it is made of for its
/// readers.
GraphUses find_uses(const graph::Graph& graph, const cost::CostModel& cost);

}  // namespace autopar::search
