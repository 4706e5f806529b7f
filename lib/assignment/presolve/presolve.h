#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/parameters.h"

namespace autopar::assignment {

/// A problem made smaller without losing its optimum, and the way back. Gone are strategies that
/// are impossible or dominated, nodes with one strategy, and nodes of degree 0, 1 and 2 whose usage
/// matters to no limit; parallel edges are one, edges that say nothing are dropped, and usage is
/// compressed (usage_rows.h). Every cost of the core is at least 0.
struct Presolved {
  AssignmentProblem core;
  WideCost constant = 0;  ///< what the cost of a choice for the core lacks

  /// The choice for the whole problem that a choice for the core stands for, within the limits
  /// where that one is.
  std::vector<int> original(const std::vector<int>& choice) const;
  /// The inverse, where strategies that are gone give way to what dominates them: no dearer, and
  /// within the limits where the choice is. nullopt where one is impossible.
  std::optional<std::vector<int>> reduced(const std::vector<int>& choice) const;

  /// What was left of a node's strategies, in the whole problem's numbers, in ascending order.
  using Strategies = std::shared_ptr<const std::vector<int>>;
  /// A node that is gone, and its answer to its neighbours' strategies.
  struct Elimination {
    int node = 0;
    Strategies strategies;
    std::vector<int> neighbours;  ///< none, one or two
    std::vector<Strategies> neighbour_strategies;
    /// Places in the node's strategies, row-major by places in the neighbours'; the first without.
    std::shared_ptr<const std::vector<int>> answers;
  };
  std::vector<Elimination> eliminations;     ///< in the order in which they were made
  std::vector<int> nodes;                    ///< by the core's node, the whole problem's
  std::vector<std::vector<int>> strategies;  ///< by the core's node and strategy, the same
  /// By the whole problem's node and strategy, the one that dominates it; -1 where none does.
  std::vector<std::vector<int>> replacements;
  std::vector<double> prices;  ///< by the core's time (usage_rows.h)
};

/// True where no sum of possible costs comes near `impossible`, as the reductions need it.
bool has_moderate_costs(const AssignmentProblem& problem);

/// `prices` are by time, of a unit of usage, or none. nullopt where no choice is possible, or none
/// is within the limits.
std::optional<Presolved> presolve(AssignmentProblem problem, std::vector<double> prices = {},
                                  const SolverParameters::Presolve& parameters = {});

}  // namespace autopar::assignment
