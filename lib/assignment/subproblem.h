#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// Whether a goal says more than that no choice is known yet: possible choices cost less than this,
/// as sums of costs are moderate (solve.cpp), and a goal that began as `impossible` more.
inline bool is_known(Cost goal) { return goal < impossible / 4; }

/// The best choice found so far, and what is proven. Every phase of the solver takes what is known
/// and hands one on.
struct Incumbent {
  Choice choice = {};      ///< within the limits; empty where none was found
  Cost cost = impossible;  ///< the choice's
  Cost bound = 0;          ///< no choice costs less

  bool is_infeasible() const { return choice.empty() && bound >= impossible; }
};

/// `bound` may exceed the cost: then the choice is optimal.
inline Incumbent make_incumbent(Choice choice, Cost cost, Cost bound) {
  if (choice.empty()) return {.bound = bound};
  return {.choice = std::move(choice), .cost = cost, .bound = std::min(bound, cost)};
}

/// Takes over a choice where it is cheaper and within the limits.
inline void offer(const AssignmentProblem& problem, const Choice& choice, Incumbent& best) {
  const Cost cost = cost_of(problem, choice);
  if (cost >= best.cost || !within_limits(problem, choice)) return;
  best.choice = choice;
  best.cost = cost;
}

/// The cheaper of two. `below_goal` answers for the choices that cost less than the goal, so that
/// its bound counts up to that; `known` answers for all.
inline Incumbent combine(Incumbent known, Incumbent below_goal, Cost goal) {
  const Cost bound = std::max(known.bound, std::min(below_goal.bound, goal));
  if (below_goal.cost < known.cost) known = std::move(below_goal);
  return make_incumbent(std::move(known.choice), known.cost, bound);
}

/// When a gap between cost and bound is small enough to stop.
struct Patience {
  Deadline end = {};          ///< until then, only a closed gap is
  double small_gap = 0;       ///< in parts of the cost
  double cost_elsewhere = 0;  ///< of the other parts of a larger problem
  double gap_elsewhere = 0;   ///< the gap of those that are solved
};

/// A problem that solving another one leads to: a component, or what fixing and branching leave.
struct Subproblem {
  AssignmentProblem problem;
  Cost cutoff = impossible;         ///< only choices that cost less are looked for
  std::vector<double> prices = {};  ///< by time, of a unit of usage, to begin with
  std::vector<Choice> starts = {};  ///< choices to begin with, within limits or not
  Deadline deadline = {};
  Patience patience = {};
  bool is_root = true;  ///< no branch has been taken
  /// Whether it may be a chain of layers: then presolve keeps tables small, so that they stay
  /// apart.
  bool is_chain = true;
};

/// What all phases of one solve share.
struct SolveContext {
  const SolveOptions& options;
  const WorkClock& clock;  ///< the deadlines'
  int threads = 1;
  double longest_presolve = 0;  ///< seconds, so far
  double glpk_seconds = 0;      ///< so far

  const SolverParameters& parameters() const { return options.parameters; }
};

/// The strategies of all nodes that are not impossible.
double count_strategies(const AssignmentProblem& problem);

}  // namespace autopar::assignment
