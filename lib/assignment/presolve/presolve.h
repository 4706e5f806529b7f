#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// A problem made smaller without losing its optimum, and the way back. Presolve removes strategies
/// that are impossible or dominated, nodes with one strategy, and nodes of degree 0, 1 and 2 whose
/// usage matters to no limit; it merges parallel edges, drops edges that are 0 everywhere, and
/// compresses usage (usage_rows.h). Every cost of the core is at least 0.
struct Presolved {
  AssignmentProblem core;
  WideCost constant = 0;  ///< to add to the cost of a choice of the core

  /// The choice of the whole problem for a choice of the core; within the limits where that is.
  Choice original(const Choice& choice) const;
  /// The inverse; removed strategies are replaced by those that dominate them, so that it costs no
  /// more and is within the limits where `choice` is. nullopt where a strategy is impossible.
  std::optional<Choice> reduced(const Choice& choice) const;

  /// The strategies of a node that were left, in the whole problem's numbers, ascending.
  using Strategies = std::shared_ptr<const std::vector<int>>;
  /// An eliminated node, and its best strategy by those of its neighbours.
  struct Elimination {
    int node = 0;
    Strategies strategies;
    std::vector<int> neighbours;  ///< none, one or two
    std::vector<Strategies> neighbour_strategies;
    /// Places in `strategies`, row-major by places in the neighbours'; null: always the first.
    std::shared_ptr<const std::vector<int>> answers;
  };
  std::vector<Elimination> eliminations;     ///< in the order in which they were made
  std::vector<int> nodes;                    ///< by the core's node, that of the whole problem
  std::vector<std::vector<int>> strategies;  ///< by the core's node and strategy, the same
  /// By node and strategy of the whole problem, the one that dominates it; -1 where none does.
  std::vector<std::vector<int>> replacements;
  std::vector<double> prices;  ///< by the core's time (usage_rows.h)
};

/// `prices` are by time, of a unit of usage, or empty. Sums of possible costs must stay far below
/// `impossible`. nullopt where no possible choice is within the limits. Behind the deadline (time
/// alone), what is left stays as it is.
std::optional<Presolved> presolve(AssignmentProblem problem, std::vector<double> prices = {},
                                  const SolverParameters::Presolve& parameters = {},
                                  const Deadline& deadline = {});

/// The nodes of each connected component, in `sweep_order` (relaxation/message_passing.h); nodes
/// are joined by edges, and by a time with a limit at which both are alive. Usage must be
/// compressed (usage_rows.h). Components are in the order of their first nodes.
std::vector<std::vector<int>> components(const AssignmentProblem& problem);

/// The subproblems of the nodes of each part, in their order, with the edges between them and all
/// limits. No node may be in two parts, and no edge join two.
std::vector<AssignmentProblem> subproblems(AssignmentProblem problem,
                                           const std::vector<std::vector<int>>& parts);

}  // namespace autopar::assignment
