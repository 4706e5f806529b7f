// The Lagrangian relaxation puts a price on usage instead of limiting it. For any prices, what the
// cheapest choice costs and pays, less what the limits are worth, bounds the limited problem; the
// prices are moved along the choice's usage over the limits, damped as in the volume algorithm
// (Barahona and Anbil 2000). Message passing bounds the priced problem, and is not begun anew where
// prices change.

#include "search/relaxation.h"

#include <algorithm>
#include <cmath>

#include "search/arc_costs.h"
#include "search/message_passing.h"
#include "search/usage_prices.h"

namespace autopar::search {

namespace {

/// A bound that gained less than this part of its gap in so many sweeps has stopped.
constexpr double least_gain = 0.02;
constexpr int sweeps_a_check = 10;
constexpr int most_sweeps = 2000;

/// About what an optimum may cost.
WideCost typical_cost(const AssignmentProblem& problem) {
  WideCost sum = 0;
  for (const auto& node : problem.nodes) {
    Cost largest = 0;
    for (const Cost cost : node.costs) largest = std::max(largest, cost < impossible ? cost : 0);
    sum += largest;
  }
  return sum;
}

class Relaxation {
 public:
  Relaxation(const AssignmentProblem& problem, const RelaxOptions& options)
      : problem_(problem),
        options_(options),
        costs_(problem, ArcCosts::scale_for(typical_cost(problem))),
        prices_(problem, costs_.scale()),
        messages_(costs_) {
    if (!options.incumbent.empty()) offer(options.incumbent);
    messages_.set_prices(prices_);
  }

  Relaxed run() {
    double last = -1e300;
    for (int sweep = 1; sweep <= most_sweeps && !options_.deadline.is_over(); ++sweep) {
      messages_.sweep();
      offer(messages_.choice());
      note_bound();
      if (result_.bound >= goal()) break;
      if (sweep % sweeps_a_check != 0) continue;
      if (bound_ - last < least_gain * (static_cast<double>(goal()) - bound_)) break;
      last = bound_;
    }
    note_bounds_with();
    return std::move(result_);
  }

 private:
  /// What the bound has to reach.
  Cost goal() const { return std::min(result_.cost, options_.cutoff); }

  void offer(const std::vector<int>& choice) {
    const Cost cost = cost_of(problem_, choice);
    if (cost >= result_.cost || !within_limits(problem_, choice)) return;
    result_.choice = choice;
    result_.cost = cost;
  }

  /// Costs are whole numbers, so a bound may be rounded up to one.
  Cost whole(double bound) const {
    return static_cast<Cost>(
        std::clamp(std::ceil((bound - prices_.limits_cost()) / costs_.scale()), 0.0, 1e18));
  }

  void note_bound() {
    const std::optional<double> bound = messages_.bound();
    if (!bound) return;
    bound_ = *bound / costs_.scale();
    result_.bound = std::max(result_.bound, whole(*bound));
  }

  void note_bounds_with() {
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      auto& bounds = result_.bounds_with.emplace_back();
      for (std::size_t s = 0; s < costs_.strategies(i); ++s) {
        bounds.push_back(messages_.bound()
                             ? whole(messages_.bound_with(costs_.first_strategy(i) + s))
                             : 0);
      }
    }
  }

  const AssignmentProblem& problem_;
  const RelaxOptions& options_;
  const ArcCosts costs_;
  UsagePrices prices_;
  MessagePassing messages_;
  double bound_ = 0;
  Relaxed result_;
};

}  // namespace

Relaxed relax(const AssignmentProblem& problem, const RelaxOptions& options) {
  return Relaxation(problem, options).run();
}

}  // namespace autopar::search
