#pragma once

#include <optional>
#include <vector>

#include "assignment/deadline.h"
#include "assignment/parameters.h"
#include "assignment/presolve/reduced_problem.h"

namespace autopar::assignment {

enum class Outcome { optimal, infeasible, stopped };

struct IntegerSolution {
  Outcome outcome = Outcome::stopped;
  std::optional<std::vector<int>> choice = {};  ///< the best that GLPK found
  double objective = 0;                         ///< of that choice, in the problem's unit
  double bound = 0;                             ///< no choice has less, up to rounding
  double seconds = 0;                           ///< that GLPK took to solve it
};

/// A ReducedProblem as an integer linear program of GLPK's: minimise the sum of all costs. They are
/// divided by a power of two, so that GLPK sees moderate numbers. Its linear relaxation is solved
/// first, by branch and cut where that is not integral, from the incumbent on. No set's least usage
/// may exceed its limit. The work of the simplex method is counted on the deadline's clock.
///
/// Variables
///   x[i][s]  binary: node i takes strategy s. A node with one strategy has none.
///   e[u][v]  at least 0, an edge and two classes a time: a's strategy is of class u and b's of v.
///            An impossible pair has none.
/// Families of rows
///   1  sum_s x[i][s] = 1                          add_choice_rows
///   2  sum_v e[u][v] = sum of x[a][s], s of u     add_edge_rows, and the same for b's classes
///   3  sum of usages of a limited set <= limit    add_usage_row, without what every choice uses,
///      and divided by the common divisor
/// Family 2 is the local polytope (Wainwright and Jordan 2008, section 4.1): where the graph is a
/// tree, and on most models' graphs, the linear relaxation without limits is integral.
IntegerSolution solve_integer_program(const ReducedProblem& problem,
                                      const std::vector<LimitedSet>& limits,
                                      const std::optional<std::vector<int>>& incumbent,
                                      const Deadline& deadline, const SolverParameters& parameters,
                                      bool log);

}  // namespace autopar::assignment
