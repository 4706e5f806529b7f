// The Lagrangian relaxation of the limits, solved exactly. Message passing, which sees pairs of
// nodes, may stay some percent below it where devices form a mesh of two axes. Prices of several
// limits move together, as the relaxation has weighed them.

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
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
  double cost;  ///< of the mixture

  /// The price of a unit of usage at which both cost the same.
  double price() const { return (within->cost - beyond->cost) / (beyond->usage - within->usage); }
};

/// Prices of all limits, of which multiples are asked for.
class PriceUnit {
 public:
  PriceUnit(const AssignmentProblem& problem, std::vector<double> prices)
      : problem_(problem), prices_(std::move(prices)), unit_(times(1)) {}

  UsagePrices times(double price) const {
    std::vector<double> scaled = prices_;
    for (double& each : scaled) each *= price;
    UsagePrices made(problem_, 1);
    made.set(scaled);
    return made;
  }
  double usage_of(const Choice& choice) const {
    double usage = 0;
    for (std::size_t i = 0; i < choice.size(); ++i)
      usage += unit_.of(i, static_cast<std::size_t>(choice[i]));
    return usage;
  }
  double limit() const { return unit_.limits_cost(); }
  bool is_any() const { return is_any_above_0(prices_); }

 private:
  const AssignmentProblem& problem_;
  std::vector<double> prices_;  ///< by time
  UsagePrices unit_;
};

/// Points whose sides bracket the best price.
class Points {
 public:
  explicit Points(double limit) : limit_(limit) {}

  /// A choice that is known counts at the lower of its costs.
  void add(Point point) {
    const auto [known, is_new] = known_.try_emplace(point.choice, points_.size());
    if (is_new)
      points_.push_back(std::move(point));
    else
      points_[known->second].cost = std::min(points_[known->second].cost, point.cost);
  }
  bool is_within(const Point& point) const { return point.usage <= limit_; }

  std::optional<Sides> sides() const {
    std::optional<Sides> best;
    for (const Point& within : points_) {
      if (!is_within(within)) continue;
      for (const Point& beyond : points_) {
        if (is_within(beyond)) continue;
        Sides sides{&within, &beyond, 0};
        if (sides.price() <= 0) continue;
        sides.cost = within.cost + sides.price() * (within.usage - limit_);
        if (!best || sides.cost < best->cost) best = sides;
      }
    }
    return best;
  }

 private:
  double limit_;
  std::map<Choice, std::size_t> known_;  ///< their places
  std::deque<Point> points_;             ///< sides point into it
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

/// What the search for the best price has to do with.
struct PriceSearch {
  const HeldElimination& elimination;
  const Deadline& deadline;
  Portfolio& portfolio;
  const SolveContext& context;
  PriceUnit unit;
  Points relaxed;  ///< at the cost of what is not held, below which no choice is
  Points choices;  ///< at their costs

  const AssignmentProblem& problem() const { return portfolio.component().problem; }
  const SolverParameters::Sides& tuning() const { return context.parameters().sides; }

  Point point_of(const Choice& choice) const {
    return {choice, unit.usage_of(choice), static_cast<double>(cost_of(problem(), choice))};
  }
  void offer(const Choice& choice) {
    if (choice.empty() || cost_of(problem(), choice) >= impossible) return;
    choices.add(point_of(choice));
    portfolio.offer(choice);
  }
  void count(double looked_at) const {
    deadline.count(looked_at / context.parameters().work.sums_a_second);
  }
};

/// What elimination finds at a price.
struct Answer {
  Point relaxed;   ///< without a choice where none is possible, or the deadline came
  Cost bound = 0;  ///< no choice within the limits costs less
  double looked_at = 0;
};

Answer answer_at(double price, const PriceSearch& search) {
  const UsagePrices usage = search.unit.times(price);
  Answer answer;
  HeldElimination::Relaxed found = search.elimination.relaxed(priced(search.problem(), usage),
                                                              search.deadline, answer.looked_at);
  if (found.choice.empty()) return answer;
  answer.bound = saturated(WideCost{found.bound} - static_cast<WideCost>(usage.limits_cost()));
  const double used = search.unit.usage_of(found.choice);
  answer.relaxed = {std::move(found.choice), used, static_cast<double>(found.bound) - price * used};
  return answer;
}

/// Asks at each of the prices, side by side. By price, the answers' points.
std::vector<Point> ask_at(const std::vector<double>& prices, PriceSearch& search) {
  std::vector<Answer> answers(prices.size());
  in_parallel(
      prices.size(), [&](std::size_t k) { answers[k] = answer_at(prices[k], search); },
      static_cast<std::size_t>(search.context.threads));
  std::vector<Point> points;
  for (Answer& answer : answers) {
    search.count(answer.looked_at);
    search.portfolio.raise_bound(answer.bound);
    search.offer(answer.relaxed.choice);
    if (!answer.relaxed.choice.empty()) search.relaxed.add(answer.relaxed);
    points.push_back(std::move(answer.relaxed));
  }
  return points;
}

/// The prices between which the best one is.
struct Bracket {
  double low = 0;  ///< the highest at which usage is beyond the limits
  double high = std::numeric_limits<double>::infinity();  ///< the lowest at which it is within

  bool is_open() const { return high == std::numeric_limits<double>::infinity(); }
  bool has(double price) const { return low < price && price < high; }
};

/// The price at which the two sides meet, and one that parts the wider of the ranges around it.
std::vector<double> next_prices(const Sides& sides, const Bracket& bracket,
                                const SolverParameters::Sides& tuning) {
  const double price = sides.price();
  const double low = std::max(bracket.low, price / tuning.widest_range);
  const double high = std::min(bracket.high, price * tuning.widest_range);
  const bool is_low = bracket.is_open() || price / low > high / price;
  return {price, std::sqrt(price * (is_low ? low : high))};
}

/// What a unit of usage costs.
double average_price(const Point& point) { return point.cost / std::max(point.usage, 1.0); }

/// Looks for the price whose bound is the highest: that of the cutting planes (Kelley 1960), and a
/// second one, which keeps them from creeping.
void find_price(std::vector<double> prices, PriceSearch& search) {
  const SolverParameters::Sides& tuning = search.tuning();
  Bracket bracket;
  double factor = tuning.falling;
  for (int round = 0; round < tuning.most_rounds; ++round) {
    const std::vector<Point> points = ask_at(prices, search);
    if (search.deadline.is_over() || search.portfolio.is_finished() || !search.unit.is_any())
      return;
    for (std::size_t k = 0; k < prices.size(); ++k) {
      if (points[k].choice.empty()) return;
      if (search.relaxed.is_within(points[k]))
        bracket.high = std::min(bracket.high, prices[k]);
      else
        bracket.low = std::max(bracket.low, prices[k]);
    }
    factor *= factor;
    if (const auto sides = search.relaxed.sides()) {
      const auto bound = static_cast<double>(search.portfolio.bound());
      const bool is_near = sides->cost - bound <= tuning.least_gap_of_price * bound;
      if (is_near || !bracket.has(sides->price())) return;
      prices = next_prices(*sides, bracket, tuning);
    } else if (bracket.is_open()) {
      const double from = bracket.low > 0 ? bracket.low : average_price(points.back());
      prices = {from / factor, from / factor / factor};
    } else if (bracket.high > 0) {
      prices = {bracket.high * factor, bracket.high * factor * factor};
    } else {
      return;  // limits do not bind
    }
  }
}

/// Where the relaxation of a side's held nodes costs less than the side, these are held and moved
/// by turns.
void complete_sides(PriceSearch& search) {
  const SolverParameters::Sides& tuning = search.tuning();
  const auto sides = search.relaxed.sides();
  if (!sides) return;
  const UsagePrices usage = search.unit.times(sides->price());
  const AssignmentProblem at_price = priced(search.problem(), usage);
  const auto gap_of = [&](const Point& side) {
    const double relaxed = side.cost + sides->price() * side.usage;
    return (static_cast<double>(cost_of(at_price, side.choice)) - relaxed) / relaxed;
  };
  const std::array<const Point*, 2> starts = {sides->within, sides->beyond};
  std::array<std::vector<Choice>, 2> found;
  std::array<double, 2> looked_at = {};
  in_parallel(
      starts.size(),
      [&](std::size_t k) {
        if (gap_of(*starts[k]) <= tuning.least_gap_to_move) return;
        Choice choice = starts[k]->choice;
        for (int round = 0; round < tuning.most_moves; ++round) {
          choice = search.elimination.complete(at_price, choice, search.deadline, looked_at[k]);
          if (choice.empty()) break;
          found[k].push_back(choice);
          if (!search.elimination.move_held(at_price, choice)) break;
        }
      },
      static_cast<std::size_t>(search.context.threads));
  for (std::size_t k = 0; k < starts.size(); ++k) {
    search.count(looked_at[k]);
    for (const Choice& choice : found[k]) search.offer(choice);
  }
}

/// The relaxation's prices, or, where it has none for a single limit, its unit.
PriceUnit first_unit(Portfolio& portfolio) {
  std::vector<double> prices = portfolio.relaxation().prices();
  if (prices.size() == 1 && prices.front() == 0) prices.front() = 1;
  return {portfolio.component().problem, std::move(prices)};
}

/// Around the relaxation's; else none, and what a unit of usage costs on average in a known choice.
std::vector<double> first_prices(const PriceSearch& search) {
  const double falling = search.tuning().falling;
  if (is_any_above_0(search.portfolio.relaxation().prices())) return {1 / falling, falling};
  const Choice& known = search.portfolio.choice();
  if (known.empty() || !search.unit.is_any()) return {0};
  return {0, average_price(search.point_of(known))};
}

}  // namespace

bool is_price_soon_found(const ChainOfLayers& chain, const Subproblem& component,
                         const SolverParameters& parameters) {
  const SolverParameters::Sides& tuning = parameters.sides;
  const double left = std::min(component.deadline.left(), component.deadline.work_left());
  return !is_any_above_0(component.prices) && component.problem.usage_limits.size() == 1 &&
         tuning.rounds_to_find * chain.elimination.cells() / parameters.work.sums_a_second <=
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
  const Deadline deadline = component.deadline.share(tuning.share);
  const PriceUnit unit = first_unit(portfolio);
  PriceSearch search{chain.elimination,   deadline, portfolio, context, unit, Points(unit.limit()),
                     Points(unit.limit())};
  if (!portfolio.choice().empty()) {
    search.choices.add(search.point_of(portfolio.choice()));
    search.relaxed.add(search.point_of(portfolio.choice()));
  }
  find_price(first_prices(search), search);
  if (portfolio.is_finished()) return;
  complete_sides(search);
  if (const auto best = search.relaxed.sides(); best && !is_priced)
    portfolio.relaxation().begin_at({best->price()});
  const auto sides = search.choices.sides();
  if (!sides) return;
  Subproblem whole = component;
  whole.deadline = component.deadline.share(tuning.share);
  whole.cutoff = portfolio.goal();
  whole.prices = portfolio.relaxation().prices();
  const Incumbent mixed =
      mix_layers(whole, chain.layers, sides->within->choice, sides->beyond->choice, context);
  if (!mixed.choice.empty()) portfolio.offer(mixed.choice);
}

}  // namespace autopar::assignment
