#include "assignment/local_search/partial_choice.h"

#include <algorithm>
#include <limits>

namespace autopar::assignment {

namespace {

void add(std::vector<WideCost>& sums, const auto& more) {
  for (std::size_t s = 0; s < sums.size(); ++s) sums[s] += more[s];
}

}  // namespace

PartialChoice::PartialChoice(const AssignmentProblem& problem, int num_operators)
    : problem_(problem),
      num_operators_(num_operators),
      links_(links_of(problem)),
      choice_(problem.nodes.size(), -1),
      has_answered_(problem.nodes.size(), 0) {
  for (const auto& node : problem.nodes) so_far_.emplace_back(node.costs.begin(), node.costs.end());
}

void PartialChoice::decide(int node, int strategy) {
  choice_[node] = strategy;
  for (const auto& [edge, other] : links_[node]) {
    std::vector<WideCost>& sums = so_far_[other];
    for (std::size_t s = 0; s < sums.size(); ++s) {
      sums[s] += pair_cost(problem_, problem_.edges[edge], other, s, strategy);
    }
  }
}

/// By strategy of `node`, the least that the node across the edge can add.
std::vector<WideCost> PartialChoice::best_answers(std::size_t edge, int node,
                                                  const std::vector<WideCost>& other) const {
  std::vector<WideCost> least(problem_.nodes[node].costs.size(),
                              std::numeric_limits<WideCost>::max());
  for (std::size_t s = 0; s < least.size(); ++s) {
    for (std::size_t t = 0; t < other.size(); ++t) {
      least[s] =
          std::min(least[s], other[t] + pair_cost(problem_, problem_.edges[edge], node, s, t));
    }
  }
  return least;
}

/// An open serving node's costs with the best strategies of its neighbours but `without`.
std::vector<WideCost> PartialChoice::serving(int node, int without, bool looks_ahead) const {
  std::vector<WideCost> sums = so_far_[node];
  // Looking ahead from every reader of a tensor to all others would take time quadratic in them.
  looks_ahead = looks_ahead && links_[node].size() <= SolverParameters::Greedy().most_looked_at;
  for (const auto& [edge, other] : links_[node]) {
    if (other == without || is_decided(other)) continue;
    if (is_operator(other) && !looks_ahead) continue;
    add(sums, best_answers(edge, node, so_far_[other]));
  }
  return sums;
}

std::vector<WideCost> PartialChoice::sums(int node, bool looks_ahead) const {
  std::vector<WideCost> result = so_far_[node];
  for (const auto& [edge, other] : links_[node]) {
    if (is_decided(other)) continue;
    if (!is_operator(other)) {
      add(result, best_answers(edge, node, serving(other, node, looks_ahead)));
    } else if (looks_ahead) {
      add(result, best_answers(edge, node, so_far_[other]));
    }
  }
  return result;
}

std::vector<WideCost> PartialChoice::resharding(int node) const {
  std::vector<WideCost> result = sums(node, false);  // with the node's own costs
  for (std::size_t s = 0; s < result.size(); ++s) result[s] -= problem_.nodes[node].costs[s];
  return result;
}

std::vector<int> PartialChoice::take_open_neighbours(int node) {
  std::vector<int> found;
  const auto take = [&](int other) {
    if (other != node && is_operator(other) && !is_decided(other)) found.push_back(other);
  };
  for (const Link& link : links_[node]) {
    take(link.other);
    if (is_operator(link.other) || has_answered_[link.other]) continue;
    has_answered_[link.other] = 1;
    for (const Link& further : links_[link.other]) take(further.other);
  }
  return found;
}

}  // namespace autopar::assignment
