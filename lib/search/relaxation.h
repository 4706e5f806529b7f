#pragma once

#include <vector>

#include "search/assignment_problem.h"
#include "search/stopwatch.h"

namespace autopar::search {

/// What is known of a problem from its Lagrangian relaxation (usage_prices.h), bounded by message
/// passing (message_passing.h).
struct Relaxed {
  Cost bound = 0;           ///< no choice within the limits costs less
  std::vector<int> choice;  ///< the cheapest found within the limits; empty where none was
  Cost cost = impossible;   ///< of `choice`
  /// By node and strategy: no choice within the limits that has it costs less.
  std::vector<std::vector<Cost>> bounds_with;
  std::vector<double> prices;  ///< by time, of a unit of usage
};

struct RelaxOptions {
  Cost cutoff = impossible;  ///< nothing is asked of choices that cost as much
  Deadline deadline = {};
  std::vector<int> incumbent = {};  ///< a choice within the limits, or empty
  std::vector<double> prices = {};  ///< where they start; empty for 0
  unsigned seed = 1;
};

/// Raises the bound until it meets the cheapest choice found, or the cutoff, or hardly moves any
/// more, or the deadline comes. Usage must be compressed (usage_rows.h), costs at least 0.
Relaxed relax(const AssignmentProblem& problem, const RelaxOptions& options);

}  // namespace autopar::search
