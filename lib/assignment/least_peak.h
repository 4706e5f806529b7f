#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

struct LeastPeak {
  Choice choice;
  std::int64_t peak = 0;         ///< of the choice
  std::int64_t lower_bound = 0;  ///< no choice has less; equals `peak` where proven least
};

/// The choice whose largest usage at times [first, end) is least, whatever it costs. Limits at
/// these times are left aside, others hold. nullopt where no choice is possible, or none was found
/// in time.
std::optional<LeastPeak> find_least_peak(const AssignmentProblem& problem, int first, int end,
                                         const SolveOptions& options);

}  // namespace autopar::assignment
