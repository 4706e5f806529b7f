// Sequential tree-reweighted message passing (Kolmogorov 2006), in the form of its generalisation
// SRMP (Kolmogorov 2015): costs move between edges and nodes, which changes no choice's cost. An
// edge's message is what has moved from it into its node. A sweep visits the nodes in order; a
// node pulls all that the edges behind it can give, and pushes equal shares of what it has into
// those before it. Trees that hang on the rest only give, as if eliminated. The sum of the nodes'
// least costs bounds every choice and never falls. It reaches about what the linear relaxation over
// the local polytope would, in linear time a sweep.

#include "assignment/relaxation/message_passing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <utility>

#include "assignment/min_plus.h"

namespace autopar::assignment {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double largest_exact = 4503599627370496.0;  // 2^52
/// A strategy that costs so much more than the node's cheapest is as good as impossible: its belief
/// is lowered to that, so that numbers stay exact.
constexpr double most_above_least = 1125899906842624.0;  // 2^50

void clamp_beliefs(std::span<double> beliefs) {
  const double least = std::min(least_and_greatest(beliefs).first, most_above_least);
  for (double& belief : beliefs) belief = std::min(belief, least + most_above_least);
}

/// Fills `least`: by the arc's own classes, the least of what a pair costs and what the other
/// strategy pays in addition; at most `most`. `others` is scratch.
void least_by_class(const ArcClasses::Arc& classes, const auto& paid, double most,
                    std::vector<double>& others, std::vector<double>& least) {
  others.assign(classes.others->representatives.size(), infinite);
  for (std::size_t t = 0; t < classes.others->of.size(); ++t) {
    double& other = others[classes.others->of[t]];
    other = std::min(other, paid(t));
  }
  least.assign(classes.own->representatives.size(), most);
  lower_to_sums(classes.costs.data(), others, least);
}

/// Trees hang on the core where every later node has one arc to an earlier one.
std::size_t nodes_before_trees(const ArcCosts& costs) {
  std::size_t core = costs.nodes();
  while (core > 0) {
    const auto arcs = costs.arcs(core - 1);
    if (arcs.size() > 1 && std::cmp_less(arcs[1].other, core - 1)) break;
    --core;
  }
  return core;
}

}  // namespace

std::vector<int> sweep_order(const AssignmentProblem& problem) {
  const auto links = links_of(problem);
  std::vector<std::size_t> degrees;
  std::vector<int> leaves;
  for (std::size_t i = 0; i < links.size(); ++i) {
    degrees.push_back(links[i].size());
    if (degrees[i] <= 1) leaves.push_back(static_cast<int>(i));
  }
  std::vector<char> is_peeled(links.size(), 0);
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    is_peeled[leaves[k]] = 1;
    for (const auto& [edge, other] : links[leaves[k]]) {
      if (!is_peeled[other] && --degrees[other] == 1) leaves.push_back(other);
    }
  }
  std::vector<int> order;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (!is_peeled[i]) order.push_back(static_cast<int>(i));
  }
  std::ranges::stable_sort(order, std::greater{}, [&](int i) { return links[i].size(); });
  order.insert(order.end(), leaves.rbegin(), leaves.rend());
  return order;
}

MessagePassing::MessagePassing(const ArcCosts& costs)
    : costs_(costs),
      classes_(costs),
      core_(nodes_before_trees(costs)),
      messages_(costs.message_entries(), 0.0),
      choice_(costs.nodes(), 0) {
  for (std::size_t i = 0; i < costs.nodes(); ++i) {
    for (std::size_t s = 0; s < costs.strategies(i); ++s) {
      beliefs_.push_back(costs.node_cost(i, s));
    }
    clamp_beliefs(std::span(beliefs_).subspan(costs.first_strategy(i)));
  }
}

void MessagePassing::set_prices(const UsagePrices& prices) {
  for (std::size_t i = 0; i < costs_.nodes(); ++i) {
    double* belief = &beliefs_[costs_.first_strategy(i)];
    for (std::size_t s = 0; s < costs_.strategies(i); ++s) {
      belief[s] = costs_.node_cost(i, s) + prices.of(i, s);
      for (const ArcCosts::Arc& arc : costs_.arcs(i)) belief[s] += messages_[arc.message + s];
    }
    clamp_beliefs({belief, costs_.strategies(i)});
  }
}

/// Moves as much as possible from the k-th arc's edge into its node.
void MessagePassing::pull(std::size_t k) {
  const ArcCosts::Arc& arc = costs_.arc(k);
  const ArcClasses::Arc& classes = classes_.arc(k);
  const double* moved = &messages_[costs_.arc(arc.reverse).message];
  // Edges without a possible pair could give more; the most keeps numbers finite.
  least_by_class(
      classes, [&](std::size_t t) { return -moved[t]; }, most_above_least, of_other_classes_,
      of_classes_);
  double* message = &messages_[arc.message];
  double* belief = &beliefs_[costs_.first_strategy(arc.node)];
  const std::vector<int>& class_of = classes.own->of;
  for (std::size_t s = 0; s < class_of.size(); ++s) {
    const double given = of_classes_[class_of[s]];
    belief[s] += given - message[s];
    message[s] = given;
  }
  clamp_beliefs({belief, class_of.size()});
}

void MessagePassing::visit(std::size_t i, bool forward) {
  const auto arcs = costs_.arcs(i);
  const auto first_from = [&](std::size_t other) {
    return std::ranges::partition_point(
        arcs, [&](const ArcCosts::Arc& arc) { return std::cmp_less(arc.other, other); });
  };
  const std::span before(arcs.begin(), first_from(i));
  const std::span after(before.end(), arcs.end());
  const std::span core(after.begin(), std::max(after.begin(), first_from(core_)));
  const std::size_t first = costs_.first_arc(i);
  const std::size_t last = first + arcs.size();
  const std::size_t middle = first + before.size();
  for (std::size_t k = forward ? first : middle; k < (forward ? middle : last); ++k) pull(k);
  const auto& ahead = forward ? core : before;

  const std::size_t count = costs_.strategies(i);
  double* belief = &beliefs_[costs_.first_strategy(i)];
  if (forward) choose(i);
  const auto [least, greatest] = least_and_greatest({belief, count});
  largest_ = std::max({largest_, -least, greatest});
  if (!ahead.empty()) {
    // Only the excess over the minimum is pushed: the bound is the sum of what stays in the nodes.
    const double shares = static_cast<double>(std::max(before.size(), core.size()));
    for (std::size_t s = 0; s < count; ++s) {
      const double share = std::floor((belief[s] - least) / shares);
      for (const ArcCosts::Arc& arc : ahead) messages_[arc.message + s] -= share;
      belief[s] -= share * static_cast<double>(ahead.size());
    }
  }
  bound_ += least_and_greatest({belief, count}).first;
}

void MessagePassing::choose(std::size_t i) {
  const std::size_t count = costs_.strategies(i);
  const double* belief = &beliefs_[costs_.first_strategy(i)];
  scratch_.assign(belief, belief + count);
  for (const ArcCosts::Arc& arc : costs_.arcs(i)) {
    if (std::cmp_greater(arc.other, i)) break;
    const double* row = costs_.row(arc, choice_[arc.other]);
    const double* message = &messages_[arc.message];
    for (std::size_t s = 0; s < count; ++s) scratch_[s] += row[s] - message[s];
  }
  choice_[i] = static_cast<int>(std::ranges::min_element(scratch_) - scratch_.begin());
}

void MessagePassing::sweep() {
  largest_ = 0;
  bound_ = 0;
  for (std::size_t i = 0; i < costs_.nodes(); ++i) visit(i, true);
  bound_ = 0;
  for (std::size_t i = costs_.nodes(); i-- > 0;) visit(i, false);
}

std::vector<double> MessagePassing::min_marginals() const {
  // The bound is the sum of the nodes' minima, and nothing left in nodes and edges is negative. A
  // choice with a strategy pays its excess over the minimum in its node, its edges and neighbours.
  std::vector<double> least(costs_.nodes());
  double bound = 0;
  for (std::size_t i = 0; i < costs_.nodes(); ++i) {
    const double* belief = &beliefs_[costs_.first_strategy(i)];
    least[i] = *std::min_element(belief, belief + costs_.strategies(i));
    bound += least[i];
  }
  std::vector<double> bounds;
  std::vector<double> others;
  std::vector<double> more;
  for (std::size_t i = 0; i < costs_.nodes(); ++i) {
    const std::size_t first = bounds.size();
    for (std::size_t s = 0; s < costs_.strategies(i); ++s) {
      bounds.push_back(bound + beliefs_[costs_.first_strategy(i) + s] - least[i]);
    }
    for (std::size_t k = costs_.first_arc(i); k < costs_.first_arc(i + 1); ++k) {
      const ArcCosts::Arc& arc = costs_.arc(k);
      const ArcClasses::Arc& classes = classes_.arc(k);
      const double* belief = &beliefs_[costs_.first_strategy(arc.other)];
      const double* message = &messages_[costs_.arc(arc.reverse).message];
      least_by_class(
          classes, [&](std::size_t other) { return belief[other] - message[other]; }, infinite,
          others, more);
      for (std::size_t s = 0; s < classes.own->of.size(); ++s) {
        bounds[first + s] +=
            more[classes.own->of[s]] - messages_[arc.message + s] - least[arc.other];
      }
    }
  }
  return bounds;
}

std::optional<double> MessagePassing::bound() const {
  if (!(largest_ < largest_exact) || !(std::abs(bound_) < largest_exact)) return std::nullopt;
  return bound_;
}

}  // namespace autopar::assignment
