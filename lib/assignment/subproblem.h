#pragma once

#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/deadline.h"
#include "assignment/incumbent.h"
#include "assignment/patience.h"

namespace autopar::assignment {

/// A problem that solving another one leads to: a component, or what fixing and branching leave.
struct Subproblem {
  AssignmentProblem problem;
  Cost cutoff = impossible;                   ///< only choices that cost less are looked for
  std::vector<double> prices = {};            ///< by time, of a unit of usage, to begin with
  std::vector<std::vector<int>> starts = {};  ///< choices to begin with
  Deadline deadline = {};
  Patience patience = {};
  bool is_root = true;  ///< no branch has been taken
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

/// The cheapest choice below the cutoff. Where none is below it, the bound is at least the cutoff.
/// Fixing and branching call it for what they leave (solve.cpp).
Incumbent solve_subproblem(Subproblem subproblem, SolveContext& context);

/// The strategies of all nodes that are not impossible.
double count_strategies(const AssignmentProblem& problem);

}  // namespace autopar::assignment
