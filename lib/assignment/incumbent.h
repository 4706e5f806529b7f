#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "assignment/cost_table.h"

namespace autopar::assignment {

/// The best choice found so far, and what is proven. Every phase of the solver takes what is known
/// and hands one on.
struct Incumbent {
  std::vector<int> choice = {};  ///< within the limits; empty where none was found
  Cost cost = impossible;        ///< the choice's
  Cost bound = 0;                ///< no choice costs less

  bool is_infeasible() const { return choice.empty() && bound >= impossible; }
};

inline Incumbent infeasible_incumbent() { return {.bound = impossible}; }

/// `bound` may exceed the cost: then the choice is optimal.
inline Incumbent make_incumbent(std::vector<int> choice, Cost cost, Cost bound) {
  if (choice.empty()) return {.bound = bound};
  return {.choice = std::move(choice), .cost = cost, .bound = std::min(bound, cost)};
}

/// The cheaper of two. `below_goal` answers for the choices that cost less than the goal, so that
/// its bound counts up to that; `known` answers for all.
inline Incumbent combine(Incumbent known, Incumbent below_goal, Cost goal) {
  const Cost bound = std::max(known.bound, std::min(below_goal.bound, goal));
  if (below_goal.cost < known.cost) known = std::move(below_goal);
  return make_incumbent(std::move(known.choice), known.cost, bound);
}

}  // namespace autopar::assignment
