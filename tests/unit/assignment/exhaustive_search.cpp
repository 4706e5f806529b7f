#include "unit/assignment/exhaustive_search.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace autopar::assignment {

namespace {

using Room = std::vector<std::int64_t>;

/// A choice of the nodes so far.
struct Partial {
  Cost cost = 0;
  Room room;  ///< by group of times
};

/// The strategies of the nodes so far that have an edge to one to come.
using Frontier = std::vector<int>;

struct FrontierHash {
  std::size_t operator()(const Frontier& frontier) const {
    std::size_t hash = 0;
    for (const int strategy : frontier)
      hash = hash * 1'000'003 + static_cast<std::size_t>(strategy);
    return hash;
  }
};
using Partials = std::unordered_map<Frontier, std::vector<Partial>, FrontierHash>;

std::vector<std::vector<int>> neighbours_of(const AssignmentProblem& problem) {
  std::vector<std::vector<int>> neighbours(problem.nodes.size());
  for (const auto& edge : problem.edges) {
    neighbours[edge.a].push_back(edge.b);
    neighbours[edge.b].push_back(edge.a);
  }
  return neighbours;
}

double possible_strategies(const AssignmentProblem::Node& node) {
  return static_cast<double>(
      std::ranges::count_if(node.costs, [](Cost cost) { return cost < impossible; }));
}

/// Each time that node next which leaves the fewest combinations to tell apart.
std::vector<int> order_of(const AssignmentProblem& problem) {
  const auto neighbours = neighbours_of(problem);
  const int count = static_cast<int>(problem.nodes.size());
  std::vector<int> order;
  std::vector<char> is_made(problem.nodes.size(), 0);
  const auto is_open = [&](int node) {
    return is_made[node] != 0 &&
           std::ranges::any_of(neighbours[node], [&](int other) { return is_made[other] == 0; });
  };
  const auto combinations_with = [&](int node) {
    is_made[node] = 1;
    double combinations = 1;
    for (int i = 0; i < count; ++i)
      if (is_open(i)) combinations *= possible_strategies(problem.nodes[i]);
    is_made[node] = 0;
    return combinations;
  };
  while (std::ssize(order) < count) {
    std::pair<double, int> best{0, -1};
    for (int i = 0; i < count; ++i) {
      if (is_made[i] != 0) continue;
      const double combinations = combinations_with(i);
      if (best.second < 0 || combinations < best.first) best = {combinations, i};
    }
    order.push_back(best.second);
    is_made[best.second] = 1;
  }
  return order;
}

bool has_limit(const AssignmentProblem& problem, int time) {
  return problem.usage_limits[time] >= 0;
}
bool is_alive(const AssignmentProblem::Node& node, int time) {
  return node.first <= time && time < node.end;
}
std::int64_t least_usage(const AssignmentProblem::Node& node) {
  return std::ranges::min(node.usages);
}

/// Where the same nodes to come are alive at several times, the one with least room matters. The
/// groups of times by the nodes behind `made` in the order, of times with a limit alone.
struct Groups {
  Groups(const AssignmentProblem& problem, const std::vector<int>& order, std::size_t made) {
    std::map<std::vector<int>, int> known;
    of.assign(problem.usage_limits.size(), -1);
    for (int t = 0; t < std::ssize(problem.usage_limits); ++t) {
      if (!has_limit(problem, t)) continue;
      std::vector<int> alive;
      for (std::size_t k = made; k < order.size(); ++k)
        if (is_alive(problem.nodes[order[k]], t)) alive.push_back(order[k]);
      const auto [group, is_new] = known.try_emplace(alive, static_cast<int>(known.size()));
      of[t] = group->second;
      if (!is_new) continue;
      std::int64_t most = 0;  // beyond the nodes' least usages
      for (const int node : alive)
        most += std::ranges::max(problem.nodes[node].usages) - least_usage(problem.nodes[node]);
      needed.push_back(most);
    }
  }
  std::size_t count() const { return needed.size(); }

  std::vector<int> of;               ///< by time; -1 without a limit
  std::vector<std::int64_t> needed;  ///< by group: more room than that makes no difference
};

/// What is left at each time beside the least usages of all nodes; nullopt where that is too much.
std::optional<Room> first_room(const AssignmentProblem& problem, const Groups& groups) {
  Room room = groups.needed;
  for (int t = 0; t < std::ssize(problem.usage_limits); ++t) {
    if (!has_limit(problem, t)) continue;
    std::int64_t left = problem.usage_limits[t];
    for (const auto& node : problem.nodes)
      if (is_alive(node, t)) left -= least_usage(node);
    if (left < 0) return std::nullopt;
    room[groups.of[t]] = std::min(room[groups.of[t]], left);
  }
  return room;
}

/// The costs of a node's strategies with what its neighbours in the frontier have chosen.
std::vector<Cost> costs_with(const AssignmentProblem& problem, int node,
                             const std::vector<int>& frontier_nodes, const Frontier& frontier) {
  std::vector<Cost> costs = problem.nodes[node].costs;
  for (const auto& edge : problem.edges) {
    if (edge.a != node && edge.b != node) continue;
    const int other = edge.a == node ? edge.b : edge.a;
    const auto place = std::ranges::find(frontier_nodes, other);
    if (place == frontier_nodes.end()) continue;
    const std::size_t chosen = frontier[place - frontier_nodes.begin()];
    const std::size_t columns = problem.nodes[edge.b].costs.size();
    for (std::size_t s = 0; s < costs.size(); ++s) {
      const Cost pair = edge.costs[edge.a == node ? s * columns + chosen : chosen * columns + s];
      costs[s] = costs[s] >= impossible || pair >= impossible ? impossible : costs[s] + pair;
    }
  }
  return costs;
}

/// Steps that may still be taken.
struct Budget {
  double left = 0;

  bool spend(std::size_t steps) { return (left -= static_cast<double>(steps)) >= 0; }
};

/// Drops those that another one beats or equals in cost and all room. False where the budget is
/// spent before.
bool drop_beaten(std::vector<Partial>& partials, Budget& budget) {
  std::ranges::sort(partials, [](const Partial& a, const Partial& b) {
    return std::pair(a.cost, b.room) < std::pair(b.cost, a.room);
  });
  std::vector<Partial> kept;
  for (Partial& partial : partials) {
    if (!budget.spend(1 + kept.size())) return false;
    const bool is_beaten = std::ranges::any_of(kept, [&](const Partial& other) {
      return std::ranges::equal(other.room, partial.room, std::greater_equal{});
    });
    if (!is_beaten) kept.push_back(std::move(partial));
  }
  partials = std::move(kept);
  return true;
}

/// From the partial choices of some nodes to those with one more.
class Step {
 public:
  Step(const AssignmentProblem& problem, const std::vector<int>& order, std::size_t made,
       const std::vector<int>& frontier_nodes)
      : problem_(problem),
        node_(order[made]),
        frontier_nodes_(frontier_nodes),
        groups_(problem, order, made),
        next_groups_(problem, order, made + 1) {
    const auto neighbours = neighbours_of(problem);
    const auto is_to_come = [&](int node) {
      return std::find(order.begin() + static_cast<std::ptrdiff_t>(made) + 1, order.end(), node) !=
             order.end();
    };
    const auto stays = [&](int node) { return std::ranges::any_of(neighbours[node], is_to_come); };
    for (std::size_t k = 0; k < frontier_nodes.size(); ++k)
      if (stays(frontier_nodes[k])) kept_.push_back(k);
    for (const std::size_t k : kept_) next_nodes_.push_back(frontier_nodes[k]);
    adds_node_ = stays(node_);
    if (adds_node_) next_nodes_.push_back(node_);
    for (int t = 0; t < std::ssize(problem.usage_limits); ++t)
      if (groups_.of[t] >= 0)
        moves_[{groups_.of[t], next_groups_.of[t]}] = is_alive(problem.nodes[node_], t);
  }

  const std::vector<int>& next_nodes() const { return next_nodes_; }

  /// nullopt where the budget is spent before.
  std::optional<Partials> advance(const Partials& partials, Budget& budget) const {
    Partials next;
    for (const auto& [frontier, choices] : partials) {
      const std::vector<Cost> costs = costs_with(problem_, node_, frontier_nodes_, frontier);
      for (std::size_t s = 0; s < costs.size(); ++s) {
        if (costs[s] >= impossible) continue;
        if (!budget.spend(1 + choices.size())) return std::nullopt;
        std::vector<Partial> made;
        for (const Partial& choice : choices)
          if (auto room = room_left(choice.room, s))
            made.push_back({choice.cost + costs[s], std::move(*room)});
        if (made.empty()) continue;
        std::vector<Partial>& all = next[with(frontier, static_cast<int>(s))];
        std::ranges::move(made, std::back_inserter(all));
      }
    }
    for (auto& [frontier, choices] : next)
      if (!drop_beaten(choices, budget)) return std::nullopt;
    return next;
  }

 private:
  Frontier with(const Frontier& frontier, int strategy) const {
    Frontier next;
    for (const std::size_t k : kept_) next.push_back(frontier[k]);
    if (adds_node_) next.push_back(strategy);
    return next;
  }

  /// nullopt where there is not enough.
  std::optional<Room> room_left(const Room& room, std::size_t strategy) const {
    const auto& node = problem_.nodes[node_];
    const std::int64_t usage = node.usages[strategy] - least_usage(node);
    Room left = next_groups_.needed;
    for (const auto& [groups, is_alive] : moves_) {
      const std::int64_t in_group = room[groups.first] - (is_alive ? usage : 0);
      if (in_group < 0) return std::nullopt;
      left[groups.second] = std::min(left[groups.second], in_group);
    }
    return left;
  }

  const AssignmentProblem& problem_;
  const int node_;
  const std::vector<int> frontier_nodes_;
  const Groups groups_;
  const Groups next_groups_;
  std::vector<std::size_t> kept_;  ///< places in the frontier
  std::vector<int> next_nodes_;
  bool adds_node_ = false;
  /// From a group to one of the next step's, and whether the node is alive then.
  std::map<std::pair<int, int>, bool> moves_;
};

}  // namespace

std::optional<Cost> least_cost(const AssignmentProblem& problem, double most_steps) {
  const std::vector<int> order = order_of(problem);
  const auto room = first_room(problem, Groups(problem, order, 0));
  if (!room) return impossible;
  Partials partials{{Frontier{}, {Partial{0, *room}}}};
  std::vector<int> frontier_nodes;
  Budget budget{most_steps};
  for (std::size_t made = 0; made < order.size(); ++made) {
    const Step step(problem, order, made, frontier_nodes);
    auto next = step.advance(partials, budget);
    if (!next) return std::nullopt;
    partials = std::move(*next);
    frontier_nodes = step.next_nodes();
  }
  Cost least = impossible;
  for (const auto& [frontier, choices] : partials)
    for (const Partial& choice : choices) least = std::min(least, choice.cost);
  return least;
}

Price price_of_choice(const AssignmentProblem& problem, const Choice& choice) {
  Price price;
  const auto add = [&](Cost cost) {
    price.cost = price.cost >= impossible || cost >= impossible ? impossible : price.cost + cost;
  };
  for (std::size_t i = 0; i < choice.size(); ++i) add(problem.nodes[i].costs[choice[i]]);
  for (const auto& edge : problem.edges)
    add(edge.costs[choice[edge.a] * problem.nodes[edge.b].costs.size() + choice[edge.b]]);
  for (int t = 0; t < std::ssize(problem.usage_limits); ++t) {
    std::int64_t usage = 0;
    for (std::size_t i = 0; i < choice.size(); ++i)
      if (is_alive(problem.nodes[i], t)) usage += problem.nodes[i].usages[choice[i]];
    if (has_limit(problem, t) && usage > problem.usage_limits[t]) price.is_within_limits = false;
  }
  return price;
}

}  // namespace autopar::assignment
