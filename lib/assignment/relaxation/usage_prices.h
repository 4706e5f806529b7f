#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// Lagrangian multipliers of the limits: a price on each unit of usage at each time. With prices
/// instead of limits, the cheapest choice's cost less `limits_cost` bounds the limited problem's
/// from below, whatever the prices are. Kept as whole numbers, so that this holds exactly.
class UsagePrices {
 public:
  /// `problem` has compressed usage (usage_rows.h); costs are multiples of 1 / scale.
  UsagePrices(const AssignmentProblem& problem, double scale)
      : problem_(problem),
        scale_(scale),
        highest_(std::ldexp(1 / scale, bits_of_sums - fraction_bits) / largest_usage(problem)),
        price_until_(problem.usage_limits.size() + 1, 0) {}

  /// Sets the prices by time, in the cost's unit, not negative. One that grows without end, as of a
  /// limit that no choice is within, stops where sums would no longer be exact.
  void set(const std::vector<double>& prices) {
    prices_ = prices;
    WideCost sum = 0;
    for (std::size_t t = 0; t < prices.size(); ++t) {
      prices_[t] = std::min(prices[t], highest_);
      const double price = std::ldexp(prices_[t] * scale_, fraction_bits);
      const WideCost whole = static_cast<WideCost>(std::round(price));
      price_until_[t + 1] = price_until_[t] + whole;
      sum += whole * problem_.usage_limits[t];
    }
    limits_cost_ = static_cast<double>((sum >> fraction_bits) + 1);
  }
  const std::vector<double>& prices() const { return prices_; }
  /// What strategy s of node i pays, rounded down, in multiples of 1 / scale.
  double of(std::size_t i, std::size_t s) const {
    const auto& node = problem_.nodes[i];
    const WideCost price = price_until_[node.end] - price_until_[node.first];
    return static_cast<double>((price * node.usages[s]) >> fraction_bits);
  }
  /// What choices within the limits pay at most, rounded up, in multiples of 1 / scale.
  double limits_cost() const { return limits_cost_; }

 private:
  static constexpr int fraction_bits = 24;
  /// The price of a usage at one time has at most so many bits, so that sums over all times fit
  /// into 127.
  static constexpr int bits_of_sums = 100;

  static double largest_usage(const AssignmentProblem& problem) {
    std::int64_t largest = 1;
    for (const std::int64_t limit : problem.usage_limits) largest = std::max(largest, limit);
    for (const auto& node : problem.nodes)
      for (const std::int64_t usage : node.usages) largest = std::max(largest, usage);
    return static_cast<double>(largest);
  }

  const AssignmentProblem& problem_;
  double scale_;
  double highest_;  ///< the highest price, in the cost's unit
  std::vector<double> prices_;
  std::vector<WideCost> price_until_;  ///< sums before each time, in 2^-24 / scale
  double limits_cost_ = 1;
};

}  // namespace autopar::assignment
