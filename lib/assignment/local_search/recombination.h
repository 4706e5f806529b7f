#pragma once

#include <cstdint>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/deadline.h"
#include "assignment/parameters.h"

namespace autopar::assignment {

/// Makes the best of choices that were met: the cheapest within the limits that takes the strategy
/// of each node from one of them. Few strategies a node leave small tables, even where the whole
/// problem's are out of reach (label_search.h). Usage must be compressed (usage_rows.h),
/// costs at least 0, and the problem must outlive it.
class Recombination {
 public:
  explicit Recombination(const AssignmentProblem& problem, const SolverParameters& parameters = {});

  /// Those that were met need not be within the limits; what is kept is always new.
  void add(const std::vector<int>& choice);
  void keep(const std::vector<int>& choice);

  /// A choice of the newest strategies, and those of `best`, that costs less than the goal; empty
  /// where there is none or it was not found. `prices` are by time, of a unit of usage.
  std::vector<int> run(const std::vector<int>& best, Cost goal, const std::vector<double>& prices,
                       const Deadline& deadline);

 private:
  /// The problem of what it has and the choices in the window.
  AssignmentProblem of_newest(const std::vector<int>& best) const;

  const AssignmentProblem& problem_;
  const SolverParameters parameters_;
  std::vector<std::vector<std::int64_t>> newest_;  ///< by strategy, the last choice that had it
  std::int64_t added_ = 0;                         ///< choices
  std::int64_t window_ = 1;                        ///< of these, as many as leave small tables
};

}  // namespace autopar::assignment
