#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "assignment/assignment_problem.h"
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

/// Adds a node that counts at times [first, end); `costs` by strategy, empty where all are free.
/// Returns its index.
int add_node(assignment::AssignmentProblem& problem, int first, int end,
             std::vector<std::int64_t> usages, std::vector<assignment::Cost> costs = {});
/// Adds nothing where all costs are 0.
void add_edge(assignment::AssignmentProblem& problem, int a, int b, assignment::CostTable costs);
/// Adds a node for what another one takes, by its strategy, at times [first, end), beside its own
/// usage.
void add_usage(assignment::AssignmentProblem& problem, int node, int first, int end,
               const std::vector<std::int64_t>& bytes);
/// Leaves the node this strategy alone.
void fix(assignment::AssignmentProblem::Node& node, int strategy);

}  // namespace autopar::search
