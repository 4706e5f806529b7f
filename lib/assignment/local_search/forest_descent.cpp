// Block coordinate descent by forests, as Hamze and de Freitas (2004) sample. A sweep draws a
// random induced forest and optimises all of its nodes at once by dynamic programming, while the
// others stay; on graphs of small treewidth most nodes move together. Nodes that stayed in one
// sweep are the first to be drawn in the next. Usage has prices, which rise at times over their
// limits and fall at others.

#include "assignment/local_search/forest_descent.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "assignment/elimination/elimination.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

namespace {

constexpr double most_paid = 1e15;  // far below `impossible`
constexpr SolverParameters::Descent parameters;

/// Adds what each strategy of `node`, one of the edge's two, and one of the other cost together.
void add_across(const AssignmentProblem& problem, const AssignmentProblem::Edge& edge, int node,
                int other_strategy, std::vector<Cost>& costs) {
  const auto other = static_cast<std::size_t>(other_strategy);
  const std::size_t columns = problem.nodes[edge.b].costs.size();
  const bool is_row = edge.a == node;
  const Cost* pair = edge.costs.begin() + (is_row ? other : other * columns);
  const std::size_t step = is_row ? columns : 1;
  for (std::size_t s = 0; s < costs.size(); ++s) costs[s] = plus(costs[s], pair[s * step]);
}

/// By node, whether it is in a forest drawn at random; those that stayed before come first.
std::vector<char> draw_forest(const Links& links, const std::vector<char>& has_stayed,
                              std::mt19937& random) {
  std::vector<int> order(links.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> tree = order;
  std::shuffle(order.begin(), order.end(), random);
  std::stable_partition(order.begin(), order.end(), [&](int i) { return has_stayed[i]; });
  std::vector<char> is_open(links.size(), 0);
  for (const int i : order) {
    std::vector<int> open;
    for (const Link& link : links[i]) {
      if (is_open[link.other]) open.push_back(link.other);
    }
    std::ranges::sort(open);
    open.erase(std::unique(open.begin(), open.end()), open.end());  // parallel edges are no cycle
    for (int& j : open) j = root_of(tree, j);
    std::ranges::sort(open);
    if (std::ranges::adjacent_find(open) != open.end()) continue;
    is_open[i] = 1;
    for (const int root : open) tree[root] = i;
  }
  return is_open;
}

/// A node of the forest. Edges to its parent, of which there may be several, are in its links.
struct Place {
  int node;
  int parent;                ///< a node too; -1 for a root
  std::vector<int> answers;  ///< by the parent's strategy
};

/// Parents before children.
std::vector<Place> places_of(const Links& links, const std::vector<char>& is_open) {
  std::vector<Place> places;
  std::vector<char> is_placed(links.size(), 0);
  const auto place = [&](int node, int parent) {
    if (!is_open[node] || is_placed[node]) return;
    is_placed[node] = 1;
    places.push_back({node, parent, {}});
  };
  for (std::size_t root = 0; root < links.size(); ++root) {
    std::size_t next = places.size();
    place(static_cast<int>(root), -1);
    for (; next < places.size(); ++next) {
      const int node = places[next].node;
      for (const Link& link : links[node]) place(link.other, node);
    }
  }
  return places;
}

/// By strategy: its own cost, what its usage pays, and its edges to nodes that stay. The price of a
/// unit is the difference of `price_until` between two times.
std::vector<Cost> costs_beside_forest(const AssignmentProblem& problem, const Links& links, int i,
                                      const std::vector<char>& is_open,
                                      const std::vector<double>& price_until,
                                      const Choice& choice) {
  const auto& node = problem.nodes[i];
  std::vector<Cost> costs = node.costs;
  const double price = price_until[std::min<std::size_t>(node.end, price_until.size() - 1)] -
                       price_until[std::min<std::size_t>(node.first, price_until.size() - 1)];
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const double paid = price * static_cast<double>(node.usages[s]);
    costs[s] = plus(costs[s], static_cast<Cost>(std::min(paid, most_paid)));
  }
  for (const Link& link : links[i]) {
    if (is_open[link.other]) continue;
    add_across(problem, problem.edges[link.edge], i, choice[link.other], costs);
  }
  return costs;
}

/// Adds to the parent's costs what the tree at the place costs at least.
void answer_parent(const AssignmentProblem& problem, const Links& links, Place& place,
                   std::vector<std::vector<Cost>>& costs) {
  std::vector<Cost>& parents = costs[place.parent];
  std::vector<Cost> sums;
  for (std::size_t t = 0; t < parents.size(); ++t) {
    sums = costs[place.node];
    for (const Link& link : links[place.node]) {
      if (link.other != place.parent) continue;
      add_across(problem, problem.edges[link.edge], place.node, static_cast<int>(t), sums);
    }
    const auto least = std::ranges::min_element(sums);
    place.answers.push_back(static_cast<int>(least - sums.begin()));
    parents[t] = plus(parents[t], *least);
  }
}

/// Chooses all of the forest's strategies at once, by dynamic programming.
void optimise_forest(const AssignmentProblem& problem, const Links& links,
                     const std::vector<char>& is_open, const std::vector<double>& prices,
                     Choice& choice) {
  std::vector<double> price_until(prices.size() + 1, 0.0);
  std::partial_sum(prices.begin(), prices.end(), price_until.begin() + 1);
  std::vector<Place> places = places_of(links, is_open);
  std::vector<std::vector<Cost>> costs(links.size());  // with the best of the trees below
  for (const Place& place : places) {
    costs[place.node] =
        costs_beside_forest(problem, links, place.node, is_open, price_until, choice);
  }
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    if (place->parent >= 0) answer_parent(problem, links, *place, costs);
  }
  for (const Place& place : places) {
    const std::vector<Cost>& own = costs[place.node];
    choice[place.node] = place.parent < 0
                             ? static_cast<int>(std::ranges::min_element(own) - own.begin())
                             : place.answers[choice[place.parent]];
  }
}

/// Raises the prices of times over their limits and lowers those of others. Whether it raised any.
bool update_prices(const AssignmentProblem& problem, const Choice& choice,
                   std::vector<double>& prices) {
  const std::vector<std::int64_t> usage = usage_over_time(problem, choice);
  const double cost = static_cast<double>(cost_of(problem, choice));
  bool is_raised = false;
  for (std::size_t t = 0; t < prices.size() && t < usage.size(); ++t) {
    const std::int64_t limit = problem.usage_limits[t];
    if (limit < 0) continue;
    if (usage[t] <= limit) {
      prices[t] *= parameters.shrinking_of_price;
      continue;
    }
    is_raised = true;
    const double whole =
        parameters.first_price * static_cast<double>(std::max<std::int64_t>(limit, 1));
    prices[t] = std::max(prices[t] * parameters.growth_of_price, cost / whole);
  }
  return is_raised;
}

}  // namespace

std::optional<Choice> descend(const AssignmentProblem& problem, Choice start, int rounds) {
  const Links links = links_of(problem);
  Choice choice = std::move(start);
  std::vector<char> has_stayed(links.size(), 0);
  std::vector<double> prices(problem.usage_limits.size(), 0.0);
  bool is_priced = false;
  std::mt19937 random;  // of a fixed seed
  Incumbent best;
  offer(problem, choice, best);
  for (int round = 0; round < rounds; ++round) {
    const Cost before = best.cost;
    for (int sweep = 0; sweep < parameters.sweeps_a_round; ++sweep) {
      const std::vector<char> is_open = draw_forest(links, has_stayed, random);
      for (std::size_t i = 0; i < is_open.size(); ++i) has_stayed[i] = !is_open[i];
      optimise_forest(problem, links, is_open, prices, choice);
    }
    offer(problem, choice, best);
    if (!is_priced && best.cost == before && cost_of(problem, choice) < impossible &&
        within_limits(problem, choice)) {
      break;
    }
    is_priced = update_prices(problem, choice, prices) || is_priced;
  }
  return best.choice.empty() ? std::nullopt : std::optional(best.choice);
}

std::optional<Choice> complete(const AssignmentProblem& problem, Choice partial) {
  AssignmentProblem open;  // edges to what is chosen go into the nodes' costs
  std::vector<int> nodes;  // of the open problem
  std::vector<int> place_of(partial.size(), open_node);
  for (int i = 0; i < std::ssize(partial); ++i) {
    if (partial[i] != open_node) continue;
    place_of[i] = static_cast<int>(nodes.size());
    nodes.push_back(i);
    open.nodes.push_back(problem.nodes[i]);
  }
  for (const auto& edge : problem.edges) {
    const int a = place_of[edge.a];
    const int b = place_of[edge.b];
    if (a != open_node && b != open_node) {
      open.edges.push_back({a, b, edge.costs});
    } else if (a != open_node) {
      add_across(problem, edge, edge.a, partial[edge.b], open.nodes[a].costs);
    } else if (b != open_node) {
      add_across(problem, edge, edge.b, partial[edge.a], open.nodes[b].costs);
    }
  }
  const auto found =
      choose_by_elimination(open, {.most_cells_of_a_table = parameters.most_cells_of_a_table});
  if (!found) return std::nullopt;
  for (std::size_t k = 0; k < nodes.size(); ++k) partial[nodes[k]] = (*found)[k];
  if (cost_of(problem, partial) >= impossible) return std::nullopt;
  return partial;
}

std::optional<Choice> complete(const AssignmentProblem& problem, const Choice& choice,
                               int num_fixed) {
  Choice partial = choice;
  std::fill(partial.begin() + num_fixed, partial.end(), open_node);
  return complete(problem, std::move(partial));
}

std::optional<Choice> settle(const AssignmentProblem& problem, const AssignmentProblem& narrowed,
                             const Choice& choice, int num_fixed) {
  const int rounds = parameters.rounds_of_repair;
  auto free = complete(problem, choice, num_fixed);
  if (free && within_limits(problem, *free)) return free;
  auto narrow = complete(narrowed, choice, num_fixed);
  if (narrow && within_limits(problem, *narrow)) return narrow;
  if (narrow) {
    if (auto repaired = descend(narrowed, *narrow, rounds)) return repaired;
  }
  return free ? descend(problem, *free, rounds) : std::nullopt;
}

}  // namespace autopar::assignment
