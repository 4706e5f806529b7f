#include "assignment/assignment_problem.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "base/error.h"

namespace autopar::assignment {

namespace {

void check_choice(const AssignmentProblem& problem, const Choice& choice) {
  require(choice.size() == problem.nodes.size(), "a choice has a strategy for every node");
  for (std::size_t i = 0; i < choice.size(); ++i) {
    require(choice[i] >= 0 && std::cmp_less(choice[i], problem.nodes[i].costs.size()),
            "a choice holds strategies that exist");
  }
}

}  // namespace

Links links_of(const AssignmentProblem& problem) {
  Links links(problem.nodes.size());
  for (std::size_t k = 0; k < problem.edges.size(); ++k) {
    const auto& edge = problem.edges[k];
    links[edge.a].push_back({k, edge.b});
    links[edge.b].push_back({k, edge.a});
  }
  return links;
}

double size_of(const AssignmentProblem& problem) {
  double size = 0;
  for (const auto& node : problem.nodes) size += static_cast<double>(node.costs.size());
  std::unordered_set<const void*> tables;
  for (const auto& edge : problem.edges) {
    if (tables.insert(edge.costs.identity()).second) size += static_cast<double>(edge.costs.size());
  }
  return size;
}

void check(const AssignmentProblem& problem) {
  for (const auto& node : problem.nodes) {
    require(!node.costs.empty(), "every node has a strategy");
    require(node.usages.size() == node.costs.size(), "every strategy has a usage");
    require(std::ranges::all_of(node.usages, [](auto usage) { return usage >= 0; }),
            "usages are not negative");
    require(node.first >= 0 && node.end >= node.first, "usage intervals are in order");
  }
  const int nodes = static_cast<int>(problem.nodes.size());
  for (const auto& edge : problem.edges) {
    require(edge.a >= 0 && edge.a < nodes && edge.b >= 0 && edge.b < nodes && edge.a != edge.b,
            "an edge joins two nodes");
    require(edge.costs.size() ==
                problem.nodes[edge.a].costs.size() * problem.nodes[edge.b].costs.size(),
            "an edge has a cost for every pair of strategies");
  }
}

Cost cost_of(const AssignmentProblem& problem, const Choice& choice) {
  check_choice(problem, choice);
  WideCost sum = 0;
  bool possible = true;
  const auto add = [&](Cost cost) {
    possible = possible && cost < impossible;
    sum += cost;
  };
  for (std::size_t i = 0; i < choice.size(); ++i) add(problem.nodes[i].costs[choice[i]]);
  for (const auto& edge : problem.edges) {
    add(pair_cost(problem, edge, edge.a, choice[edge.a], choice[edge.b]));
  }
  return possible && sum < impossible ? static_cast<Cost>(sum) : impossible;
}

std::vector<std::int64_t> usage_over_time(const AssignmentProblem& problem, const Choice& choice) {
  check_choice(problem, choice);
  std::size_t horizon = problem.usage_limits.size();
  for (const auto& node : problem.nodes) horizon = std::max<std::size_t>(horizon, node.end);
  std::vector<std::int64_t> usage(horizon + 1, 0);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    const auto& node = problem.nodes[i];
    usage[node.first] += node.usages[choice[i]];
    usage[node.end] -= node.usages[choice[i]];
  }
  std::inclusive_scan(usage.begin(), usage.end(), usage.begin());
  usage.pop_back();
  return usage;
}

bool within_limits(const AssignmentProblem& problem, const Choice& choice) {
  const std::vector<std::int64_t> usage = usage_over_time(problem, choice);
  for (std::size_t t = 0; t < problem.usage_limits.size(); ++t) {
    if (problem.usage_limits[t] >= 0 && usage[t] > problem.usage_limits[t]) return false;
  }
  return true;
}

bool may_be_within_limits(const AssignmentProblem& problem) {
  Choice thrifty;
  for (const auto& node : problem.nodes) {
    std::size_t least = 0;
    const auto effort = [&](std::size_t s) {
      return std::pair(node.costs[s] >= impossible, node.usages[s]);
    };
    for (std::size_t s = 1; s < node.costs.size(); ++s)
      if (effort(s) < effort(least)) least = s;
    thrifty.push_back(static_cast<int>(least));
  }
  return within_limits(problem, thrifty);
}

}  // namespace autopar::assignment
