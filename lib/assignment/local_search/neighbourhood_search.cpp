// Large-neighbourhood search (Shaw 1998) over trees: trees of nodes are set free, the rest is kept.
// Under prices on usage the best choice of a tree is found by dynamic programming; where it exceeds
// a limit, that time's price is raised and the tree solved anew. A choice over the limits is
// repaired by the same moves under a rising price.

#include "assignment/local_search/neighbourhood_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace autopar::assignment {

NeighbourhoodSearch::NeighbourhoodSearch(const AssignmentProblem& problem, const ArcCosts& costs,
                                         const Choice& start, double most, unsigned seed,
                                         const SolverParameters::Neighbourhoods& parameters)
    : problem_(problem),
      most_(most),
      costs_(costs),
      parameters_(parameters),
      random_(seed),
      price_until_(problem.usage_limits.size() + 1, 0.0),
      usage_(problem.usage_limits),
      trees_(costs) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (problem.nodes[i].costs.size() > 1) movable_.push_back(static_cast<int>(i));
  }
  restart(start);
}

void NeighbourhoodSearch::set_prices(const std::vector<double>& prices) {
  std::partial_sum(prices.begin(), prices.end(), price_until_.begin() + 1);
}

void NeighbourhoodSearch::restart(const Choice& choice) {
  choice_ = choice;
  cost_ = total_cost();
  usage_ = UsageTree(problem_.usage_limits);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const auto& node = problem_.nodes[i];
    usage_.add(node.first, node.end, node.usages[choice[i]]);
  }
  repair_price_ = 0;
  note_conflicts();
  keep_if_best();
}

void NeighbourhoodSearch::advance(double work, const Deadline& deadline) {
  if (movable_.empty()) return;
  double next_look = work_;
  for (const double end = work_ + work; work_ < end;) {
    if (work_ >= next_look) {
      if (deadline.is_over()) break;
      note_conflicts();
      next_look = work_ + parameters_.work_between_looks;
    }
    work_ += parameters_.work_of_round;
    set_trees_free();
    if (is_over()) {
      reduce_usage();
    } else {
      reduce_cost();
    }
  }
}

double NeighbourhoodSearch::total_cost() const {
  double sum = 0;
  for (std::size_t i = 0; i < costs_.nodes(); ++i) {
    sum += costs_.node_cost(i, choice_[i]);
    for (const ArcCosts::Arc& arc : costs_.arcs(i)) {
      if (std::cmp_greater(arc.other, i)) break;
      sum += costs_.row(arc, choice_[arc.other])[choice_[i]];
    }
  }
  return sum;
}

void NeighbourhoodSearch::note_conflicts() {
  conflicts_.clear();
  if (cost_ < most_) return;
  cost_ = total_cost();
  for (const int i : movable_) {
    double most = costs_.node_cost(i, choice_[i]);
    for (const ArcCosts::Arc& arc : costs_.arcs(i)) {
      most = std::max(most, costs_.row(arc, choice_[arc.other])[choice_[i]]);
    }
    if (most >= most_) conflicts_.push_back(i);
  }
}

void NeighbourhoodSearch::keep_if_best() {
  if (is_over() || cost_ >= best_cost_ || cost_ >= most_) return;
  best_ = choice_;
  best_cost_ = cost_;
}

/// Trees around one time, so that one can use what another saves.
void NeighbourhoodSearch::set_trees_free() {
  trees_.clear();
  const double most_size = static_cast<double>(movable_.size());
  const double size = std::exp(uniform(0, std::log(most_size)));
  const std::size_t trees = 1 + below(static_cast<std::size_t>(parameters_.most_trees));
  int time = is_over() ? usage_.time_of_most() : -1;
  for (std::size_t k = 0; k < trees; ++k) {
    const int root = root_near(time);
    if (!trees_.may_grow(root)) continue;
    const auto& node = problem_.nodes[root];
    if (time < 0 && node.first < node.end) {
      time = node.first + static_cast<int>(below(node.end - node.first));
    }
    trees_.grow(root, static_cast<std::size_t>(size) / trees + 1, random_);
  }
  work_ += parameters_.work_of_arc * static_cast<double>(trees_.arcs());
  count(sum_costs(problem_, trees_, choice_, price_until_, tree_costs_));
  present_.clear();
  for (const FreeTrees::Place& place : trees_.places()) present_.push_back(choice_[place.node]);
}

int NeighbourhoodSearch::root_near(int time) {
  if (!conflicts_.empty() && below(parameters_.roots_a_conflict) == 0)
    return conflicts_[below(conflicts_.size())];
  const auto is_alive = [&](int i) {
    return problem_.nodes[i].first <= time && time < problem_.nodes[i].end;
  };
  int root = movable_[below(movable_.size())];
  for (int k = 0; k < parameters_.most_draws_of_a_root && time >= 0 && !is_alive(root); ++k) {
    root = movable_[below(movable_.size())];
  }
  return root;
}

/// False where the free nodes have these strategies already.
bool NeighbourhoodSearch::move_to(const std::vector<int>& strategies) {
  bool is_new = false;
  for (std::size_t k = 0; k < strategies.size(); ++k) {
    const int i = trees_.places()[k].node;
    const auto& node = problem_.nodes[i];
    if (choice_[i] == strategies[k]) continue;
    is_new = true;
    usage_.add(node.first, node.end, node.usages[strategies[k]] - node.usages[choice_[i]]);
    choice_[i] = strategies[k];
  }
  return is_new;
}

void NeighbourhoodSearch::reduce_cost() {
  const double before = cost_of_places(trees_, tree_costs_, present_);
  const double weight = uniform(0, parameters_.most_weight_of_prices);
  std::vector<Bump> bumps;
  for (int k = 0; k < parameters_.most_proposals; ++k) {
    count(propose(problem_, trees_, tree_costs_, weight, bumps, present_, proposal_));
    const double after = cost_of_places(trees_, tree_costs_, proposal_);
    if (after > before) return;
    // A move at no cost is good where usage pays less.
    if (after == before && more_paid(trees_, tree_costs_, present_, proposal_) >= 0) return;
    if (!move_to(proposal_)) return;
    if (!is_over()) {
      cost_ += after - before;
      keep_if_best();
      return;
    }
    // The price of the excess is about what it saves.
    const double worth = (before - after + 1) / static_cast<double>(usage_.most());
    const int time = usage_.time_of_most();
    move_to(present_);
    bumps.push_back({time, worth * uniform(parameters_.least_bump, parameters_.most_bump)});
  }
}

void NeighbourhoodSearch::reduce_usage() {
  const std::int64_t over = usage_.most();
  const int time = usage_.time_of_most();
  const double before = cost_of_places(trees_, tree_costs_, present_);
  count(propose(problem_, trees_, tree_costs_, 1, {{time, repair_price_}}, present_, proposal_));
  const double after = cost_of_places(trees_, tree_costs_, proposal_);
  if (move_to(proposal_)) {
    const std::int64_t now = usage_.most();
    if (now < over || (now == over && usage_.excess_at(time) < over)) {
      cost_ += after - before;
      keep_if_best();
      return;
    }
    move_to(present_);
  }
  if (repair_price_ == 0) {
    repair_price_ = parameters_.first_repair_price * (cost_ + 1) / static_cast<double>(over);
  }
  repair_price_ *= parameters_.growth_of_repair_price;
}

}  // namespace autopar::assignment
