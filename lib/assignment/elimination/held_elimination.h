#pragma once

#include <optional>
#include <vector>

#include "assignment/elimination/elimination.h"

namespace autopar::assignment {

/// Elimination of a problem without limits in which a few nodes join nearly all others, such as a
/// mask that every layer reads. While they are held at a strategy, the rest is a chain of layers,
/// whose tables are small (cutset conditioning, Pearl 1988). One serves all problems that differ in
/// their costs alone.
class HeldElimination {
 public:
  struct Limits {
    int most_held = 0;
    double most_cells = 1e18;         ///< to fill, isomorphic parts counted once
    double few_cells = 1e18;          ///< that are soon filled
    double most_cells_of_all = 1e18;  ///< each counted
  };
  /// Holds the nodes of most edges, as few as leave few cells, or more where each of these makes
  /// them far fewer, in the best of the orders. nullopt where there are more cells than the most.
  static std::optional<HeldElimination> make(const AssignmentProblem& problem,
                                             const Limits& limits);

  /// The cells of one elimination's tables, those of equal parts counted once.
  double cells() const { return cells_; }

  /// The cheapest choice in which each edge of a held node has the strategy of the held node that
  /// suits it best, and a bound: no choice costs less. `choice` has the held nodes' best for what
  /// the others chose. Costs must not be negative. An empty choice where none is possible, or
  /// the deadline came, and then no bound.
  struct Relaxed {
    Choice choice;
    Cost bound = 0;
  };
  /// Deadlines and `looked_at` are those of Elimination::choose.
  Relaxed relaxed(const AssignmentProblem& problem, const Deadline& deadline,
                  double& looked_at) const;

  /// The cheapest choice with the held nodes' strategies of `start`; empty where none is possible.
  Choice complete(const AssignmentProblem& problem, const Choice& start, const Deadline& deadline,
                  double& looked_at) const;
  /// Gives each held node its best strategy in turn; whether one has changed.
  bool move_held(const AssignmentProblem& problem, Choice& choice) const;

 private:
  HeldElimination(Links links, std::vector<int> held, Elimination of_rest, double cells);

  Links links_;
  std::vector<int> held_;
  std::vector<char> is_held_;  ///< by node
  Elimination of_rest_;        ///< without the held nodes
  double cells_ = 0;
};

}  // namespace autopar::assignment
