#include "assignment/relaxation/usage_prices.h"

#include <cmath>

namespace autopar::assignment {

namespace {

constexpr int fraction_bits = 24;

}  // namespace

UsagePrices::UsagePrices(const AssignmentProblem& problem, double scale)
    : problem_(problem),
      scale_(scale),
      prices_(problem.usage_limits.size(), 0.0),
      price_until_(problem.usage_limits.size() + 1, 0) {}

void UsagePrices::set(const std::vector<double>& prices) {
  prices_ = prices;
  for (std::size_t t = 0; t < prices.size(); ++t) {
    const double price = std::ldexp(prices[t] * scale_, fraction_bits);
    price_until_[t + 1] = price_until_[t] + static_cast<WideCost>(std::round(price));
  }
  WideCost sum = 0;
  for (std::size_t t = 0; t < prices.size(); ++t) {
    sum += (price_until_[t + 1] - price_until_[t]) * problem_.usage_limits[t];
  }
  limits_cost_ = static_cast<double>((sum >> fraction_bits) + 1);
}

double UsagePrices::of(std::size_t i, std::size_t s) const {
  const auto& node = problem_.nodes[i];
  const WideCost price = price_until_[static_cast<std::size_t>(node.end)] -
                         price_until_[static_cast<std::size_t>(node.first)];
  return static_cast<double>((price * node.usages[s]) >> fraction_bits);
}

}  // namespace autopar::assignment
