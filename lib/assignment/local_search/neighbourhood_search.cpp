// Large-neighbourhood search: trees of nodes are set free, the rest is kept. Under prices on usage
// the best choice for a tree is found by dynamic programming; where it exceeds some limit, that
// time's price is raised and the tree solved anew. A choice over the limits is brought within them
// by the same moves under a rising price, least cost first.

#include "assignment/local_search/neighbourhood_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace autopar::assignment {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

}  // namespace

NeighbourhoodSearch::NeighbourhoodSearch(const AssignmentProblem& problem, const ArcCosts& costs,
                                         const std::vector<int>& start, double most, unsigned seed,
                                         const SolverParameters::Neighbourhoods& parameters)
    : problem_(problem),
      most_(most),
      costs_(costs),
      parameters_(parameters),
      random_(seed),
      price_until_(problem.usage_limits.size() + 1, 0.0),
      usage_(problem.usage_limits),
      place_(problem.nodes.size(), -1),
      touched_in_(problem.nodes.size(), -1),
      touches_(problem.nodes.size(), 0) {
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (problem.nodes[i].costs.size() > 1) movable_.push_back(static_cast<int>(i));
  }
  restart(start);
}

void NeighbourhoodSearch::set_prices(const std::vector<double>& prices) {
  for (std::size_t t = 0; t < prices.size(); ++t) {
    price_until_[t + 1] = price_until_[t] + prices[t];
  }
}

void NeighbourhoodSearch::restart(const std::vector<int>& choice) {
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
    ++rounds_;
    work_ += parameters_.work_of_round;
    grow();
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

double NeighbourhoodSearch::uniform(double from, double to) {
  return std::uniform_real_distribution<double>(from, to)(random_);
}

std::size_t NeighbourhoodSearch::below(std::size_t count) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
}

/// Trees whose nodes are alive at one time, so that one can pay for the other.
void NeighbourhoodSearch::grow() {
  for (const Place& place : places_) place_[place.node] = -1;
  places_.clear();
  leaves_ = 0;
  values_.clear();
  const double most_size = static_cast<double>(movable_.size());
  const double size = std::exp(uniform(0, std::log(most_size)));
  const std::size_t trees = 1 + below(static_cast<std::size_t>(parameters_.most_trees));
  int time = is_over() ? usage_.time_of_most() : -1;
  for (std::size_t k = 0; k < trees; ++k) {
    const int root = root_near(time);
    if (place_[root] >= 0 || is_in_the_way(root)) continue;
    const auto& node = problem_.nodes[root];
    if (time < 0 && node.first < node.end) {
      time = node.first + static_cast<int>(below(node.end - node.first));
    }
    grow_tree(root, static_cast<std::size_t>(size) / trees + 1);
  }
  sum_fixed_costs();
}

int NeighbourhoodSearch::root_near(int time) {
  if (!conflicts_.empty() && below(2) == 0) return conflicts_[below(conflicts_.size())];
  const auto is_alive = [&](int i) {
    return problem_.nodes[i].first <= time && time < problem_.nodes[i].end;
  };
  int root = movable_[below(movable_.size())];
  for (int k = 0; k < parameters_.most_draws_of_a_root && time >= 0 && !is_alive(root); ++k) {
    root = movable_[below(movable_.size())];
  }
  return root;
}

void NeighbourhoodSearch::grow_tree(int root, std::size_t size) {
  frontier_.clear();
  set_free(root, -1, nullptr);
  const std::size_t end = places_.size() - leaves_ + size;
  while (!frontier_.empty() && places_.size() - leaves_ < end) {
    const std::size_t pick = below(frontier_.size());
    const auto [node, from] = frontier_[pick];
    frontier_[pick] = frontier_.back();
    frontier_.pop_back();
    // A second free neighbour would close a cycle.
    if (place_[node] >= 0 || touches_[node] > 1) continue;
    set_free(node, place_[from->node], &costs_.arc(from->reverse));
  }
}

bool NeighbourhoodSearch::is_in_the_way(int i) const { return touched_in_[i] == rounds_; }

void NeighbourhoodSearch::set_free(int i, int parent, const ArcCosts::Arc* arc) {
  const int place = static_cast<int>(places_.size());
  place_[i] = place;
  places_.push_back({i, parent, arc, values_.size()});
  values_.resize(values_.size() + costs_.strategies(i));
  work_ += parameters_.work_of_arc * static_cast<double>(costs_.arcs(i).size());
  for (const ArcCosts::Arc& next : costs_.arcs(i)) {
    const int other = next.other;
    if (place_[other] >= 0 || problem_.nodes[other].costs.size() == 1) continue;
    if (costs_.arcs(other).size() == 1) {
      // A leaf has to follow.
      place_[other] = static_cast<int>(places_.size());
      places_.push_back({other, place, &costs_.arc(next.reverse), values_.size()});
      values_.resize(values_.size() + costs_.strategies(other));
      ++leaves_;
      continue;
    }
    if (touched_in_[other] != rounds_) {
      touched_in_[other] = rounds_;
      touches_[other] = 0;
      frontier_.push_back({other, &next});
    }
    ++touches_[other];
  }
}

void NeighbourhoodSearch::sum_fixed_costs() {
  fixed_.resize(values_.size());
  priced_.resize(values_.size());
  proposal_.resize(places_.size());
  for (const Place& place : places_) {
    const std::size_t i = place.node;
    const std::size_t count = costs_.strategies(i);
    const auto& node = problem_.nodes[i];
    const double price = price_until_[node.end] - price_until_[node.first];
    double* fixed = &fixed_[place.values];
    for (std::size_t s = 0; s < count; ++s) {
      fixed[s] = costs_.node_cost(i, s);
      priced_[place.values + s] = price * static_cast<double>(node.usages[s]);
    }
    for (const ArcCosts::Arc& arc : costs_.arcs(i)) {
      if (place_[arc.other] >= 0) continue;
      const double* row = costs_.row(arc, choice_[arc.other]);
      for (std::size_t s = 0; s < count; ++s) fixed[s] += row[s];
    }
    work_ += (parameters_.work_of_arc + static_cast<double>(count)) *
             static_cast<double>(costs_.arcs(i).size());
  }
}

/// The cheapest choice of the free nodes beside the rest, under the prices and the bumps.
void NeighbourhoodSearch::propose(double weight_of_prices, const std::vector<Bump>& bumps) {
  for (const Place& place : places_) {
    const auto& node = problem_.nodes[place.node];
    double price = 0;
    for (const Bump& bump : bumps) {
      if (node.first <= bump.time && bump.time < node.end) price += bump.price;
    }
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      values_[place.values + s] = fixed_[place.values + s] +
                                  weight_of_prices * priced_[place.values + s] +
                                  price * static_cast<double>(node.usages[s]);
    }
  }
  for (std::size_t k = places_.size(); k-- > 0;) {
    const Place& place = places_[k];
    if (place.parent < 0) continue;
    const std::size_t count = costs_.strategies(place.node);
    const Place& parent = places_[place.parent];
    const std::size_t parents = costs_.strategies(parent.node);
    const double* value = &values_[place.values];
    double* into = &values_[parent.values];
    for (std::size_t t = 0; t < parents; ++t) {
      const double* row = costs_.row(*place.arc, t);
      double least = infinite;
      for (std::size_t s = 0; s < count; ++s) least = std::min(least, value[s] + row[s]);
      into[t] += least;
    }
    work_ += parameters_.work_of_arc + static_cast<double>(count * parents);
  }
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const Place& place = places_[k];
    double* value = &values_[place.values];
    const std::size_t count = costs_.strategies(place.node);
    if (place.parent >= 0) {
      const double* row = costs_.row(*place.arc, proposal_[place.parent]);
      for (std::size_t s = 0; s < count; ++s) value[s] += row[s];
    }
    // The present strategy where none is better.
    const int present = choice_[place.node];
    const double* best = std::min_element(value, value + count);
    proposal_[k] = *best < value[present] ? static_cast<int>(best - value) : present;
  }
}

double NeighbourhoodSearch::cost_of_places(bool is_proposal) const {
  const auto strategy = [&](int place) {
    return (is_proposal ? proposal_[place] : choice_[places_[place].node]);
  };
  double sum = 0;
  for (int k = 0; k < static_cast<int>(places_.size()); ++k) {
    const Place& place = places_[k];
    sum += fixed_[place.values + strategy(k)];
    if (place.parent >= 0) sum += costs_.row(*place.arc, strategy(place.parent))[strategy(k)];
  }
  return sum;
}

double NeighbourhoodSearch::change_of_prices() const {
  double sum = 0;
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const double* priced = &priced_[places_[k].values];
    sum += priced[proposal_[k]] - priced[choice_[places_[k].node]];
  }
  return sum;
}

/// Swaps choice and proposal; false where they are the same.
bool NeighbourhoodSearch::swap() {
  bool is_new = false;
  for (std::size_t k = 0; k < places_.size(); ++k) {
    const auto& node = problem_.nodes[places_[k].node];
    int& present = choice_[places_[k].node];
    if (present == proposal_[k]) continue;
    is_new = true;
    usage_.add(node.first, node.end, node.usages[proposal_[k]] - node.usages[present]);
    std::swap(present, proposal_[k]);
  }
  return is_new;
}

void NeighbourhoodSearch::reduce_cost() {
  const double before = cost_of_places(false);
  const double weight = uniform(0, parameters_.most_weight_of_prices);
  std::vector<Bump> bumps;
  for (int k = 0; k < parameters_.most_proposals; ++k) {
    propose(weight, bumps);
    const double after = cost_of_places(true);
    // What costs the same may leave more for others.
    if (after > before || (after == before && change_of_prices() >= 0) || !swap()) return;
    if (!is_over()) {
      cost_ += after - before;
      keep_if_best();
      return;
    }
    // What the excess has saved is about what it is worth.
    const double worth = (before - after + 1) / static_cast<double>(usage_.most());
    const int time = usage_.time_of_most();
    swap();
    bumps.push_back({time, worth * uniform(parameters_.least_bump, parameters_.most_bump)});
  }
}

void NeighbourhoodSearch::reduce_usage() {
  const std::int64_t over = usage_.most();
  const int time = usage_.time_of_most();
  const double before = cost_of_places(false);
  propose(1, {{time, repair_price_}});
  const double after = cost_of_places(true);
  if (swap()) {
    const std::int64_t now = usage_.most();
    if (now < over || (now == over && usage_.excess_at(time) < over)) {
      cost_ += after - before;
      keep_if_best();
      return;
    }
    swap();
  }
  if (repair_price_ == 0)
    repair_price_ = parameters_.first_repair_price * (cost_ + 1) / static_cast<double>(over);
  repair_price_ *= parameters_.growth_of_repair_price;
}

}  // namespace autopar::assignment
