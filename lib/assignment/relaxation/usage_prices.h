#pragma once

#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// Lagrangian multipliers of the limits: a price on each unit of usage at each time. With prices
/// instead of limits, the cheapest choice's cost less `limits_cost` bounds the limited problem's
/// from below, whatever the prices are. Kept as whole numbers, so that this holds exactly.
class UsagePrices {
 public:
  /// `problem` has compressed usage (usage_rows.h); costs are multiples of 1 / scale.
  UsagePrices(const AssignmentProblem& problem, double scale);
  /// Sets the prices by time, in the cost's unit, not negative.
  void set(const std::vector<double>& prices);
  const std::vector<double>& prices() const { return prices_; }
  /// What strategy s of node i pays, rounded down, in multiples of 1 / scale.
  double of(std::size_t i, std::size_t s) const;
  /// What choices within the limits pay at most, rounded up, in multiples of 1 / scale.
  double limits_cost() const { return limits_cost_; }

 private:
  const AssignmentProblem& problem_;
  double scale_;
  std::vector<double> prices_;
  std::vector<WideCost> price_until_;  ///< sums before each time, in 2^-24 / scale
  double limits_cost_ = 1;
};

}  // namespace autopar::assignment
