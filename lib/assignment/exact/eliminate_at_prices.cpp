// The Lagrangian relaxation of the limits, solved exactly. Message passing, which sees pairs of
// nodes, may stay some percent below it where devices form a mesh of two axes. Prices of several
// limits move together, as the relaxation has weighed them.

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "assignment/elimination/held_elimination.h"
#include "assignment/phases.h"
#include "assignment/relaxation/usage_prices.h"
#include "assignment/repetition/mixed_layers.h"
#include "base/in_parallel.h"

namespace autopar::assignment {

namespace {

bool is_any_above_0(const std::vector<double>& prices) {
  return std::ranges::any_of(prices, [](double price) { return price > 0; });
}

/// A choice as a point of usage, all limits as one by their prices, and cost.
struct Point {
  Choice choice;
  double usage = 0;
  double cost = 0;
};

/// Two choices on either side of the limits whose mixture costs least.
struct Sides {
  const Point* within;
  const Point* beyond;

  /// The price of a unit of usage at which both cost the same.
  double price() const { return (within->cost - beyond->cost) / (beyond->usage - within->usage); }
};

/// What is known of a problem at prices in place of its limits.
class PricedChoices {
 public:
  PricedChoices(const AssignmentProblem& problem, std::vector<double> prices)
      : problem_(problem), prices_(std::move(prices)), unit_(usage_at(1)) {}

  /// Usage at so many times the prices.
  UsagePrices usage_at(double price) const {
    std::vector<double> scaled = prices_;
    for (double& each : scaled) each *= price;
    UsagePrices made(problem_, 1);
    made.set(scaled);
    return made;
  }
  double limit() const { return unit_.limits_cost(); }
  bool has_price() const { return is_any_above_0(prices_); }

  void add(const Choice& choice) {
    const Cost cost = choice.empty() ? impossible : cost_of(problem_, choice);
    if (cost >= impossible || !known_.insert(choice).second) return;
    double usage = 0;
    for (std::size_t i = 0; i < choice.size(); ++i)
      usage += unit_.of(i, static_cast<std::size_t>(choice[i]));
    points_.push_back({choice, usage, static_cast<double>(cost)});
  }

  std::optional<Sides> sides() const {
    std::optional<Sides> best;
    double least = std::numeric_limits<double>::infinity();
    for (const Point& within : points_) {
      if (within.usage > limit()) continue;
      for (const Point& beyond : points_) {
        if (beyond.usage <= limit()) continue;
        const Sides sides{&within, &beyond};
        if (sides.price() <= 0) continue;
        const double cost = within.cost + sides.price() * (within.usage - limit());
        if (cost >= least) continue;
        least = cost;
        best = sides;
      }
    }
    return best;
  }
  /// What a unit of usage costs on average in the choice that was added last.
  double average_price() const {
    return points_.empty() ? 1 : points_.back().cost / std::max(points_.back().usage, 1.0);
  }
  bool is_any_within() const {
    return std::ranges::any_of(points_, [&](const Point& p) { return p.usage <= limit(); });
  }

 private:
  const AssignmentProblem& problem_;
  std::vector<double> prices_;  ///< by time
  UsagePrices unit_;
  std::set<Choice> known_;
  std::deque<Point> points_;  ///< sides point into it
};

/// The problem in which usage costs in place of limits.
AssignmentProblem priced(AssignmentProblem problem, const UsagePrices& usage) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    auto& node = problem.nodes[i];
    for (std::size_t s = 0; s < node.costs.size(); ++s)
      node.costs[s] =
          plus(node.costs[s], static_cast<Cost>(std::min<double>(usage.of(i, s), impossible)));
  }
  for (auto& node : problem.nodes) {
    node.usages.assign(node.costs.size(), 0);
    node.first = node.end = 0;
  }
  problem.usage_limits.clear();
  return problem;
}

/// What elimination finds at a price.
struct Answer {
  std::vector<Choice> choices;
  Cost bound = 0;  ///< no choice within the limits costs less
  double looked_at = 0;
};

Answer answer_at(double price, const AssignmentProblem& problem, const PricedChoices& known,
                 const HeldElimination& elimination, const SolverParameters::Sides& tuning,
                 const Deadline& deadline) {
  const UsagePrices usage = known.usage_at(price);
  const AssignmentProblem at_price = priced(problem, usage);
  Answer answer;
  HeldElimination::Relaxed relaxed = elimination.relaxed(at_price, deadline, answer.looked_at);
  if (relaxed.choice.empty()) return answer;
  answer.bound = saturated(WideCost{relaxed.bound} - static_cast<WideCost>(usage.limits_cost()));
  Choice choice = std::move(relaxed.choice);
  answer.choices.push_back(choice);
  const auto gap = static_cast<double>(cost_of(at_price, choice) - relaxed.bound);
  if (gap <= tuning.least_gap_to_move * static_cast<double>(relaxed.bound)) return answer;
  for (int round = 0; round < tuning.most_moves && !choice.empty() && !deadline.is_over();
       ++round) {
    choice = elimination.complete(at_price, choice, deadline, answer.looked_at);
    if (choice.empty()) break;
    answer.choices.push_back(choice);
    if (!elimination.move_held(at_price, choice)) break;
  }
  return answer;
}

/// Asks at each of the prices, side by side; offers and adds what is found.
void ask_at(const std::vector<double>& prices, const HeldElimination& elimination,
            const Deadline& deadline, PricedChoices& known, Portfolio& portfolio,
            const SolveContext& context) {
  const AssignmentProblem& problem = portfolio.component().problem;
  const SolverParameters::Sides& tuning = context.parameters().sides;
  std::vector<Answer> answers(prices.size());
  in_parallel(
      prices.size(),
      [&](std::size_t k) {
        answers[k] = answer_at(prices[k], problem, known, elimination, tuning, deadline);
      },
      static_cast<std::size_t>(context.threads));
  for (const Answer& answer : answers) {
    portfolio.raise_bound(answer.bound);
    for (const Choice& choice : answer.choices) {
      known.add(choice);
      portfolio.offer(choice);
    }
    deadline.count(answer.looked_at / context.parameters().work.sums_a_second);
  }
}

/// The relaxation's prices, or, where it has none for a single limit, its unit.
std::vector<double> first_prices(Portfolio& portfolio) {
  std::vector<double> prices = portfolio.relaxation().prices();
  if (prices.size() == 1 && prices.front() == 0) prices.front() = 1;
  return prices;
}

/// Moves the price until the sides stay, and returns what is known then.
PricedChoices find_sides(const HeldElimination& elimination, const Deadline& deadline,
                         Portfolio& portfolio, const SolveContext& context) {
  const SolverParameters::Sides& tuning = context.parameters().sides;
  const bool is_priced = is_any_above_0(portfolio.relaxation().prices());
  PricedChoices known(portfolio.component().problem, first_prices(portfolio));
  known.add(portfolio.choice());
  double factor = tuning.falling;
  std::vector<double> prices{1 / factor, factor};
  if (!is_priced) prices = {0};
  for (int round = 0; round < tuning.most_rounds; ++round) {
    const auto before = known.sides();
    ask_at(prices, elimination, deadline, known, portfolio, context);
    if (deadline.is_over() || portfolio.is_finished() || !known.has_price()) break;
    const auto sides = known.sides();
    if (before && before->price() == sides->price()) break;
    factor *= factor;
    if (sides)
      prices = {sides->price()};
    else if (prices.back() == 0)
      prices = {known.average_price()};
    else if (known.is_any_within())
      prices = {prices.back() * factor, prices.back() * factor * factor};
    else
      prices = {prices.front() / factor / factor, prices.front() / factor};
  }
  return known;
}

}  // namespace

bool is_price_soon_found(const ChainOfLayers& chain, const Subproblem& component,
                         const SolverParameters& parameters) {
  const SolverParameters::Sides& tuning = parameters.sides;
  const double left = std::min(component.deadline.left(), component.deadline.work_left());
  return !is_any_above_0(component.prices) && component.problem.usage_limits.size() == 1 &&
         tuning.prices_to_find * chain.elimination.cells() / parameters.work.sums_a_second <=
             tuning.share_of_price * left;
}

std::optional<ChainOfLayers> find_chain(const AssignmentProblem& problem, const Deadline& deadline,
                                        const SolverParameters& parameters) {
  const SolverParameters::Sides& tuning = parameters.sides;
  auto layers = find_repeated_layers(problem, tuning.least_layers);
  if (!layers) return std::nullopt;
  const double seconds =
      tuning.share_of_elimination * std::min(deadline.left(), deadline.work_left());
  const double most_cells = std::min(tuning.most_cells, seconds * parameters.work.sums_a_second);
  auto elimination =
      HeldElimination::make(problem, {.most_held = tuning.most_held,
                                      .most_cells = most_cells,
                                      .few_cells = std::min(tuning.few_cells, most_cells),
                                      .most_cells_of_all = tuning.most_cells_of_all});
  if (!elimination) return std::nullopt;
  return ChainOfLayers{std::move(*layers), std::move(*elimination)};
}

void eliminate_at_prices(const ChainOfLayers& chain, Portfolio& portfolio, SolveContext& context) {
  const SolverParameters::Sides& tuning = context.parameters().sides;
  const Subproblem& component = portfolio.component();
  const bool is_priced = is_any_above_0(portfolio.relaxation().prices());
  const PricedChoices known =
      find_sides(chain.elimination, component.deadline.share(tuning.share), portfolio, context);
  const auto sides = known.sides();
  if (!sides || portfolio.is_finished()) return;
  if (!is_priced) portfolio.relaxation().begin_at({sides->price()});
  Subproblem whole = component;
  whole.deadline = component.deadline.share(tuning.share);
  whole.cutoff = portfolio.goal();
  whole.prices = portfolio.relaxation().prices();
  const Incumbent mixed =
      mix_layers(whole, chain.layers, sides->within->choice, sides->beyond->choice, context);
  if (!mixed.choice.empty()) portfolio.offer(mixed.choice);
}

}  // namespace autopar::assignment
