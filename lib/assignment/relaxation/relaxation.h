#pragma once

#include <vector>

#include "assignment/arc_costs.h"
#include "assignment/relaxation/message_passing.h"
#include "assignment/relaxation/single_price.h"
#include "assignment/relaxation/usage_prices.h"
#include "assignment/repetition/folding.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

/// By node and strategy, a lower bound on the cost of the choices that hold the strategy.
using MinMarginals = std::vector<std::vector<Cost>>;

/// The Lagrangian relaxation of a problem's limits (usage_prices.h), bounded by message passing
/// (message_passing.h): a lower bound that rises step by step, and choices by rounding. Usage must
/// be compressed (usage_rows.h), costs at least 0, no two edges between the same nodes, and the
/// problem must outlive it.
class Relaxation {
 public:
  /// `prices` are the first ones, by time; empty for 0. `cost_elsewhere` is the cost of the other
  /// parts of a larger problem.
  Relaxation(const AssignmentProblem& problem, std::vector<double> prices, double cost_elsewhere,
             const SolverParameters::Relaxation& parameters = {});

  /// Steps until that many costs are looked at, the bound reaches the goal or hardly rises, or the
  /// deadline comes. Returns how many costs it looked at.
  double advance(double work, Cost goal, const Deadline& deadline);
  /// The costs that a step looks at.
  double work_of_step() const { return parameters_.sweeps_a_step * messages_.work_of_sweep(); }
  bool is_stuck() const { return is_stuck_; }
  /// Goes on from the prices, by time.
  void begin_at(std::vector<double> prices);
  /// Takes over the messages and prices of the folded problem's relaxation.
  void start_from(const Relaxation& folded, const Folding& folding);
  /// Sweeps at the prices of the best bound while that rises, before prices move again.
  void settle(const Deadline& deadline);
  /// A choice within the limits where there is little to know yet: at prices so high that usage
  /// counts more than costs. Empty where a few sweeps find none. Messages and prices stay.
  Choice thrifty_choice(const Deadline& deadline);
  /// Takes long steps again, to find other choices.
  void perturb();

  /// No choice within the limits costs less.
  Cost bound() const { return best_.bound; }
  /// The cheapest choice within the limits that was met; empty where none was.
  const Choice& choice() const { return best_.choice; }
  Cost cost() const { return best_.cost; }
  /// The choice of the last step, within the limits or not.
  const Choice& priced_choice() const { return messages_.choice(); }
  /// The choices of the last advance's steps, each once in a row.
  const std::vector<Choice>& priced_choices() const { return priced_choices_; }
  /// The prices of the best bound, by time.
  const std::vector<double>& prices() const { return center_; }
  MinMarginals min_marginals();

 private:
  bool has_many_limits() const { return center_.size() >= parameters_.many_limits; }
  int first_sweeps() const;
  std::size_t most_null_steps() const;
  void set_prices(const std::vector<double>& prices) {
    prices_.set(prices);
    messages_.set_prices(prices_);
  }
  void step(Cost goal);
  /// Takes over the choice and the bound that it finds.
  void sweep(int times);
  void move_prices(Cost goal);
  void move_single_price(Cost goal);
  double gap_to(Cost goal) const;
  Cost whole(double bound) const;

  const AssignmentProblem& problem_;
  const double cost_elsewhere_;
  const SolverParameters::Relaxation parameters_;
  const ArcCosts costs_;
  UsagePrices prices_;
  MessagePassing messages_;
  Incumbent best_;
  std::vector<Choice> priced_choices_;

  std::vector<double> center_;     ///< the prices of the best bound
  std::vector<double> excess_;     ///< by time, usage over the limit, averaged over the steps
  double present_bound_ = -1e300;  ///< at the present prices
  double best_bound_ = -1e300;
  double factor_;             ///< of the step that would lead to the goal if the bound were linear
  std::size_t nulls_ = 0;     ///< steps without gain
  SinglePrice single_price_;  ///< where there is one limit
  int steps_ = 0;
  double bound_at_check_ = -1e300;
  bool is_stuck_ = false;
};

}  // namespace autopar::assignment
