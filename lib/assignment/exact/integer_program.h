#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "assignment/deadline.h"
#include "assignment/parameters.h"
#include "assignment/presolve/reduced_problem.h"

struct glp_prob;

namespace autopar::assignment {

/// An AssignmentProblem as an integer linear program of GLPK's: minimise the sum of all costs. They
/// are divided by `scale`, a power of two, so that GLPK sees moderate numbers. No set's least usage
/// may exceed its limit.
///
/// Variables
///   x[i][s]  binary: node i takes strategy s. A node with one strategy has none.
///   e[u][v]  at least 0, an edge and two classes a time: a's strategy is of class u and b's of v.
///            An impossible pair has none.
/// Families of rows
///   1  sum_s x[i][s] = 1                          add_choice_rows
///   2  sum_v e[u][v] = sum of x[a][s], s of u     add_edge_rows, and the same for b's classes
///   3  sum of usages of a limited set <= limit    add_usage_rows, without what every choice uses,
///      and divided by the common divisor
/// Family 2 is the local polytope (Wainwright and Jordan 2008, section 4.1): where the graph is a
/// tree, and on most models' graphs, the linear relaxation without limits is integral.
class IntegerProgram {
 public:
  IntegerProgram(const ReducedProblem& problem, const std::vector<LimitedSet>& limits,
                 const SolverParameters::Work& rates);

  enum class Outcome { optimal, infeasible, stopped };
  struct Result {
    Outcome outcome = Outcome::stopped;
    std::optional<std::vector<int>> choice;  ///< the best that GLPK found
    double objective = 0;                    ///< of that choice, in the problem's unit
    double bound = 0;                        ///< no choice has less, up to rounding
  };
  /// Linear relaxation first, branch and cut where it is not integral. Starts from the incumbent.
  /// The work of the simplex method is counted on the deadline's clock.
  Result solve(const std::optional<std::vector<int>>& incumbent, const Deadline& deadline,
               bool log);

 private:
  struct Deleter {
    void operator()(glp_prob* program) const;
  };
  struct Rows;

  void add_choice_rows(Rows& rows);
  void add_edge_rows(Rows& rows, const ReducedProblem::Edge& edge, std::size_t index);
  void add_usage_rows(Rows& rows, const LimitedSet& set);
  int add_column(double cost);
  bool has_columns(std::size_t node) const { return first_column_[node] != 0; }
  /// A column's value in each solution is read by `value`.
  template <typename Value>
  std::vector<int> decode(const Value& value) const;
  template <typename Value>
  bool is_integral(const Value& value) const;
  std::vector<double> encode(const std::vector<int>& choice) const;
  double objective_of(const std::vector<double>& values) const;
  Result branch_and_cut(const std::optional<std::vector<int>>& incumbent, const Deadline& deadline);
  double seconds_of_iteration() const;
  int iterations_until(const Deadline& deadline) const;
  void count_iterations(const Deadline& deadline);
  double in_unit(double objective) const { return objective * scale_; }

  const ReducedProblem& problem_;
  const SolverParameters::Work rates_;
  std::unique_ptr<glp_prob, Deleter> program_;
  std::vector<int> first_column_;               ///< by node; 0 for none
  std::vector<std::vector<int>> edge_columns_;  ///< by edge and class pair; 0 for none
  double scale_ = 1;
};

}  // namespace autopar::assignment
