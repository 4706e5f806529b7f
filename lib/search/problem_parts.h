#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "assignment/assignment_problem.h"
#include "cost/cost_model.h"
#include "graph/graph.h"

namespace autopar::search {

/// Who makes and reads a graph's values, and how long they live. Time 0 is at rest; then run the
/// operators of one graph after the other, each graph alone: the problem's node i at time i + 1.
struct GraphUses {
  struct Reader {
    graph::NodeId node;
    std::size_t input;
  };
  std::vector<graph::NodeId> producers;      ///< by ValueId
  std::vector<std::vector<Reader>> readers;  ///< by ValueId, in the order in which they run
  std::vector<int> last_use;                 ///< by ValueId; first_node where nothing uses it
  int first_node = 0;                        ///< the problem's node of the graph's first operator
  int end = 0;                               ///< one past the graph's last time

  int node_of(graph::NodeId id) const { return first_node + id; }
  int time_of(graph::NodeId id) const { return first_node + id + 1; }
  int first_time() const { return first_node + 1; }
};

/// A value without memory of its own (CostModel::takes_memory) keeps what it is made of for its
/// readers.
GraphUses find_uses(const graph::Graph& graph, const cost::CostModel& cost, int first_node = 0);

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
