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
                                         const SolverParameters& parameters)
    : problem_(problem),
      most_(most),
      costs_(costs),
      all_parameters_(parameters),
      random_(seed),
      price_until_(problem.usage_limits.size() + 1, 0.0),
      usage_(problem.usage_limits),
      regions_(problem, parameters),
      trees_(costs) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (problem.nodes[i].costs.size() > 1) movable_.push_back(static_cast<int>(i));
  }
  work_of_conflicts_ =
      parameters_.work_of_conflicts * static_cast<double>(costs.first_arc(costs.nodes()));
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
  undo_.clear();
  is_best_present_ = false;
  note_conflicts();
  keep_if_best();
  settle_best();
}

void NeighbourhoodSearch::advance(double work, const Deadline& deadline) {
  if (movable_.empty()) return;
  double next_look = work_;
  double next_conflicts = work_;
  for (const double end = work_ + work; work_ < end;) {
    if (work_ >= next_look) {
      if (deadline.is_over()) break;
      next_look = work_ + parameters_.work_between_looks;
    }
    if (work_ >= next_conflicts) {
      note_conflicts();
      next_conflicts = work_ + std::max(parameters_.work_between_looks, work_of_conflicts_);
    }
    if (!is_over() && cost_ < most_ && work_of_regions() < all_parameters_.regions.share * work_) {
      move_region(deadline);
      continue;
    }
    work_ += parameters_.work_of_round;
    set_trees_free();
    if (is_over()) {
      reduce_usage();
    } else {
      reduce_cost();
    }
  }
  settle_best();
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
    if (is_in_conflict(i)) conflicts_.push_back(i);
  }
}

bool NeighbourhoodSearch::is_in_conflict(int i) const {
  if (costs_.node_cost(i, choice_[i]) >= most_) return true;
  return std::ranges::any_of(costs_.arcs(i), [&](const ArcCosts::Arc& arc) {
    return costs_.row(arc, choice_[arc.other])[choice_[i]] >= most_;
  });
}

/// A node that is in conflict still; -1 where there is none.
int NeighbourhoodSearch::draw_conflict() {
  while (!conflicts_.empty()) {
    const std::size_t place = below(conflicts_.size());
    if (is_in_conflict(conflicts_[place])) return conflicts_[place];
    conflicts_[place] = conflicts_.back();
    conflicts_.pop_back();
  }
  return -1;
}

void NeighbourhoodSearch::keep_if_best() {
  if (is_over() || cost_ >= best_cost_ || cost_ >= most_) return;
  best_cost_ = cost_;
  is_best_present_ = true;
  undo_.clear();
}

/// Writes the best choice down, which is the present one but for the changes since.
void NeighbourhoodSearch::settle_best() {
  if (!is_best_present_) return;
  best_ = choice_;
  for (std::size_t k = undo_.size(); k-- > 0;) best_[undo_[k].first] = undo_[k].second;
  is_best_present_ = false;
  undo_.clear();
}

/// Trees around one time, so that one can use what another saves.
void NeighbourhoodSearch::set_trees_free() {
  trees_.clear();
  const double most_size = static_cast<double>(std::min(movable_.size(), parameters_.most_nodes));
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
  if (!conflicts_.empty() && below(parameters_.roots_a_conflict) == 0) {
    if (const int conflict = draw_conflict(); conflict >= 0) return conflict;
  }
  const auto is_alive = [&](int i) {
    return problem_.nodes[i].first <= time && time < problem_.nodes[i].end;
  };
  int root = movable_[below(movable_.size())];
  for (int k = 0; k < parameters_.most_draws_of_a_root && time >= 0 && !is_alive(root); ++k) {
    root = movable_[below(movable_.size())];
    work_ += parameters_.work_of_draw;
  }
  return root;
}

/// False where the free nodes have these strategies already.
bool NeighbourhoodSearch::move_to(const std::vector<int>& strategies) {
  bool is_new = false;
  for (std::size_t k = 0; k < strategies.size(); ++k) {
    is_new = move_to(trees_.places()[k].node, strategies[k]) || is_new;
  }
  return is_new;
}

/// False where the node has this strategy already.
bool NeighbourhoodSearch::move_to(int i, int strategy) {
  if (choice_[i] == strategy) return false;
  const auto& node = problem_.nodes[i];
  usage_.add(node.first, node.end, node.usages[strategy] - node.usages[choice_[i]]);
  if (is_best_present_) {
    undo_.emplace_back(i, choice_[i]);
    if (undo_.size() > choice_.size()) settle_best();
  }
  choice_[i] = strategy;
  return true;
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

void NeighbourhoodSearch::move_region(const Deadline& deadline) {
  const double before = work_of_regions();
  const auto move = regions_.find(choice_, usage_, price_until_, random_, deadline);
  work_ += work_of_regions() - before;
  if (!move) return;
  for (std::size_t k = 0; k < move->nodes.size(); ++k) move_to(move->nodes[k], move->strategies[k]);
  cost_ -= static_cast<double>(move->saved);
  keep_if_best();
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
