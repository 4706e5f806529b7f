// Lagrangian relaxation with the volume algorithm (Barahona and Anbil 2000). Usage has prices
// instead of limits: for any prices, the least priced cost less the price of the limits is a lower
// bound. The prices move from the best ones so far along the excess of usage over the limits,
// averaged over the choices met. Message passing bounds the priced problem; its messages stay valid
// where prices change.

#include "assignment/relaxation/relaxation.h"

#include <algorithm>
#include <cmath>

namespace autopar::assignment {

namespace {

/// A rough cost of an optimum: the dearest strategy of each node, edges at the cheapest ones.
WideCost typical_cost(const AssignmentProblem& problem) {
  const auto finite = [](Cost cost) { return cost < impossible ? cost : 0; };
  WideCost sum = 0;
  std::vector<std::size_t> cheapest;
  for (const auto& node : problem.nodes) {
    sum += finite(std::ranges::max(node.costs, {}, finite));
    cheapest.push_back(std::ranges::min_element(node.costs) - node.costs.begin());
  }
  for (const auto& edge : problem.edges) {
    sum += finite(pair_cost(problem, edge, edge.a, cheapest[edge.a], cheapest[edge.b]));
  }
  return sum;
}

}  // namespace

Relaxation::Relaxation(const AssignmentProblem& problem, std::vector<double> prices,
                       double cost_elsewhere, const SolverParameters::Relaxation& parameters)
    : problem_(problem),
      cost_elsewhere_(cost_elsewhere),
      parameters_(parameters),
      costs_(problem, ArcCosts::scale_for(typical_cost(problem))),
      prices_(problem, costs_.scale()),
      messages_(costs_),
      center_(std::move(prices)),
      factor_(parameters.first_factor) {
  center_.resize(problem.usage_limits.size(), 0.0);
  excess_.resize(center_.size(), 0.0);
  set_prices(center_);
}

void Relaxation::begin_at(std::vector<double> prices) {
  center_ = std::move(prices);
  set_prices(center_);
}

void Relaxation::start_from(const Relaxation& folded, const Folding& folding) {
  messages_.set_messages(folding.unfolded(folded.messages_.messages(), folded.costs_, costs_));
  center_ = folded.center_;
  single_price_ = folded.single_price_;
  set_prices(center_);
}

/// The first sweep from no messages is often enough: what is rounded is then the least usage.
Choice Relaxation::thrifty_choice(const Deadline& deadline) {
  if (!has_many_limits()) return {};
  const double price = parameters_.high_price * static_cast<double>(typical_cost(problem_)) /
                       static_cast<double>(center_.size());
  std::vector<double> prices;
  for (const std::int64_t limit : problem_.usage_limits) {
    prices.push_back(price / (static_cast<double>(limit) + 1));
  }
  set_prices(prices);
  Incumbent found;
  for (int k = 0; k < parameters_.most_thrifty_sweeps && found.choice.empty(); ++k) {
    if (deadline.is_over()) break;
    messages_.sweep();
    offer(problem_, messages_.choice(), found);
  }
  messages_.set_messages(std::vector<double>(costs_.message_entries(), 0.0));
  set_prices(center_);
  return found.choice;
}

void Relaxation::settle(const Deadline& deadline) {
  set_prices(center_);
  for (int k = 0; k < parameters_.most_settling_sweeps && !deadline.is_over(); ++k) {
    const double before = present_bound_;
    sweep(1);
    best_bound_ = std::max(best_bound_, present_bound_);
    if (k > 0 && present_bound_ - before < parameters_.least_settling_gain * std::abs(before))
      break;
  }
}

/// Few limits' prices are soon found: steps need not wait for an average over many choices.
std::size_t Relaxation::most_null_steps() const {
  return std::min(parameters_.most_null_steps,
                  std::max<std::size_t>(1, parameters_.null_steps_a_limit * center_.size()));
}

/// Where a sweep is much work, fewer.
int Relaxation::first_sweeps() const {
  const double most = parameters_.most_work_of_first_sweeps / messages_.work_of_sweep();
  return static_cast<int>(std::clamp(most, static_cast<double>(parameters_.sweeps_a_step),
                                     static_cast<double>(parameters_.first_sweeps)));
}

double Relaxation::advance(double work, Cost goal, const Deadline& deadline) {
  priced_choices_.clear();
  double done = 0;
  while (done < work && !is_stuck_ && !deadline.is_over()) {
    step(std::min(goal, cost()));
    done += work_of_step();
    if (priced_choices_.empty() || priced_choices_.back() != messages_.choice()) {
      priced_choices_.push_back(messages_.choice());
    }
    if (bound() >= std::min(goal, cost())) break;
  }
  return done;
}

void Relaxation::perturb() {
  is_stuck_ = false;
  factor_ = parameters_.first_factor;
  bound_at_check_ = -1e300;
}

void Relaxation::step(Cost goal) {
  sweep(steps_ == 0 ? first_sweeps() : parameters_.sweeps_a_step);
  if (++steps_ % parameters_.steps_a_check == 0) {
    is_stuck_ = (steps_ > parameters_.bold_steps || !has_many_limits()) &&
                best_bound_ - bound_at_check_ < parameters_.least_gain * gap_to(goal);
    bound_at_check_ = best_bound_;
  }
  if (center_.size() > 1) {
    move_prices(goal);
  } else if (center_.size() == 1) {
    move_single_price(goal);
  } else {
    best_bound_ = present_bound_;
  }
}

/// How far the bound may have to rise, as the goal may be far from an optimum.
double Relaxation::gap_to(Cost goal) const {
  const int before = parameters_.steps_before_first_gap;
  const bool is_late =
      steps_ > before || before * work_of_step() > parameters_.work_before_first_gap;
  const bool is_long = is_late && !is_known(goal);
  const double part = is_long ? parameters_.first_gap : parameters_.largest_gap;
  return std::min(static_cast<double>(goal) - best_bound_,
                  part * (std::abs(best_bound_) + cost_elsewhere_));
}

/// Rounds a bound up, as costs are whole numbers.
Cost Relaxation::whole(double bound) const {
  return static_cast<Cost>(
      std::clamp(std::ceil((bound - prices_.limits_cost()) / costs_.scale()), 0.0, 1e18));
}

void Relaxation::sweep(int times) {
  for (int k = 0; k < times; ++k) messages_.sweep();
  offer(problem_, messages_.choice(), best_);
  const std::optional<double> bound = messages_.bound();
  if (!bound) return;
  present_bound_ = (*bound - prices_.limits_cost()) / costs_.scale();
  best_.bound = std::max(best_.bound, whole(*bound));
}

void Relaxation::move_prices(Cost goal) {
  const std::vector<std::int64_t> usage = usage_over_time(problem_, messages_.choice());
  double along = 0;
  double newest = 0;  // its squared length
  for (std::size_t t = 0; t < center_.size(); ++t) {
    const double excess = static_cast<double>(usage[t] - problem_.usage_limits[t]);
    along += excess * excess_[t];
    if (center_[t] > 0 || excess > 0) newest += excess * excess;
    excess_[t] += (steps_ == 1 ? 1.0 : parameters_.weight_of_newest) * (excess - excess_[t]);
  }
  if (present_bound_ > best_bound_) {
    best_bound_ = present_bound_;
    center_ = prices_.prices();
    if (along > 0)
      factor_ = std::min(parameters_.largest_factor, factor_ * parameters_.growth_of_factor);
    nulls_ = 0;
  } else if (++nulls_ >= most_null_steps()) {
    factor_ *= parameters_.shrinking_of_factor;
    nulls_ = 0;
  }
  double length = 0;
  for (std::size_t t = 0; t < center_.size(); ++t) {
    if (center_[t] > 0 || excess_[t] > 0) length += excess_[t] * excess_[t];
  }
  if (length <= 0) return;
  // An average near 0 leads far: to no better bound, but to many kinds of choices.
  const bool is_bold = steps_ < parameters_.bold_steps && has_many_limits();
  if (steps_ == parameters_.bold_steps && has_many_limits()) factor_ = parameters_.first_factor;
  const double longest = is_bold ? length : std::sqrt(length * std::max(length, newest));
  const double step = factor_ * std::max(1.0, gap_to(goal)) / longest;
  std::vector<double> prices(center_.size());
  for (std::size_t t = 0; t < prices.size(); ++t) {
    prices[t] = std::max(0.0, center_[t] + step * excess_[t]);
  }
  set_prices(prices);
}

void Relaxation::move_single_price(Cost goal) {
  const double price = prices_.prices().front();
  const std::int64_t usage = usage_over_time(problem_, messages_.choice()).front();
  const double excess = static_cast<double>(usage - problem_.usage_limits.front());
  const bool has_gained = present_bound_ > best_bound_;
  if (has_gained) {
    best_bound_ = present_bound_;
    center_ = {price};
  }
  const double first_step =
      parameters_.first_factor * std::max(1.0, gap_to(goal)) / std::max(1.0, std::abs(excess));
  set_prices({single_price_.next(price, excess, first_step, has_gained, parameters_)});
}

MinMarginals Relaxation::min_marginals() {
  if (!center_.empty()) {
    set_prices(center_);
    sweep(first_sweeps());
  }
  const std::vector<double> bounds = messages_.min_marginals();
  MinMarginals result(problem_.nodes.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::size_t s = 0; s < costs_.strategies(i); ++s) {
      result[i].push_back(messages_.bound() ? whole(bounds[costs_.first_strategy(i) + s]) : 0);
    }
  }
  return result;
}

}  // namespace autopar::assignment
