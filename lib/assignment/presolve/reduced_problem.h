#pragma once

#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// A problem reduced for an integer program, with the same possible choices: strategies that have
/// no possible partner across some edge are gone (arc consistency), an edge's row and column minima
/// have moved into its nodes, edges that were sums of a row and a column term have vanished with
/// that, and edges between the same two nodes are one. All costs are at least 0 and every node's
/// least is 0, so that `constant` bounds every choice from below.
struct ReducedProblem {
  struct Node {
    std::vector<int> strategies;  ///< those left, in the original numbers
    std::vector<WideCost> costs;
    std::vector<std::int64_t> usages;
    int first = 0;
    int end = 0;
  };
  /// Strategies with equal rows are one row class, those with equal columns one column class.
  struct Edge {
    int a = 0;
    int b = 0;
    std::vector<int> class_of_a;  ///< by a's strategy
    std::vector<int> class_of_b;
    int classes_of_a = 0;
    int classes_of_b = 0;
    std::vector<Cost> costs;  ///< by row class times column classes, plus column class
    Cost cost(int class_a, int class_b) const {
      return costs[static_cast<std::size_t>(class_a * classes_of_b + class_b)];
    }
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  WideCost constant = 0;

  /// A choice in the original numbers.
  std::vector<int> original(const std::vector<int>& choice) const;
  /// The inverse; nullopt where the choice holds a strategy that is gone.
  std::optional<std::vector<int>> reduced(const std::vector<int>& choice) const;
};

/// nullopt where every choice is impossible even without limits.
std::optional<ReducedProblem> reduce(const AssignmentProblem& problem);

/// Nodes that are alive together and the limit that holds for their usages.
struct LimitedSet {
  std::int64_t limit = 0;
  std::vector<int> nodes;
};

/// The largest such sets: every other time with a limit has the same limit and fewer nodes. Sets
/// that no choice can bring over their limit are left out.
std::vector<LimitedSet> limited_sets(const ReducedProblem& problem,
                                     const std::vector<std::int64_t>& usage_limits);

}  // namespace autopar::assignment
