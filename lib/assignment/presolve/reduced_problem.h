#pragma once

#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/row_classes.h"

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
  /// Strategies of a with equal rows are one class, and those of b with equal columns.
  struct Edge {
    int a = 0;
    int b = 0;
    RowClasses rows;
    RowClasses columns;
    std::vector<Cost> costs;  ///< by row class times column classes, plus column class

    /// Where the cost of a choice is.
    std::size_t place(const Choice& choice) const {
      return rows.of[choice[a]] * columns.representatives.size() + columns.of[choice[b]];
    }
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  WideCost constant = 0;

  /// A choice in the original numbers.
  Choice original(const Choice& choice) const;
  /// The inverse; nullopt where the choice holds a strategy that is gone.
  std::optional<Choice> reduced(const Choice& choice) const;
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
