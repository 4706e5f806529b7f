// Large-neighbourhood search (Shaw 1998) with regions of small treewidth, which elimination solves.

#include "assignment/local_search/regions.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "assignment/elimination/label_search.h"
#include "assignment/presolve/usage_rows.h"

namespace autopar::assignment {

namespace {

double log_uniform(double least, double most, std::mt19937_64& random) {
  return std::exp(std::uniform_real_distribution<double>(std::log(least), std::log(most))(random));
}

std::size_t below(std::size_t count, std::mt19937_64& random) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

/// Those of a presolve that takes no longer than what it makes smaller.
SolverParameters for_regions(SolverParameters parameters) {
  parameters.presolve.most_comparisons = parameters.regions.most_comparisons_of_presolve;
  parameters.presolve.most_cells_of_elimination = parameters.regions.most_cells_of_elimination;
  return parameters;
}

}  // namespace

Regions::Regions(const AssignmentProblem& problem, const SolverParameters& parameters)
    : problem_(problem),
      parameters_(for_regions(parameters)),
      links_(links_of(problem)),
      most_nodes_(static_cast<double>(parameters.regions.first_nodes)),
      place_(problem.nodes.size(), -1) {
  ends_.push_back(0);
  for (const auto& links : links_) ends_.push_back(ends_.back() + links.size());
}

/// Half of them at the end of an edge, so that nodes with many edges have their turn; the others
/// where much can be saved: of some nodes the one that costs most.
int Regions::draw_root(const Choice& choice, std::mt19937_64& random) const {
  if (ends_.back() > 0 && below(2, random) == 0) {
    const std::size_t end = below(ends_.back(), random);
    return static_cast<int>(std::ranges::upper_bound(ends_, end) - ends_.begin()) - 1;
  }
  int root = 0;
  double most = -1;
  for (std::size_t draws = 1 + below(parameters_.regions.most_draws_of_a_root, random); draws > 0;
       --draws) {
    const int i = static_cast<int>(below(links_.size(), random));
    const double cost = cost_around(i, choice);
    if (cost > most) root = i;
    most = std::max(most, cost);
  }
  return root;
}

/// What a node costs at present, with its first edges.
double Regions::cost_around(int node, const Choice& choice) const {
  double cost = static_cast<double>(problem_.nodes[node].costs[choice[node]]);
  const std::size_t edges = std::min(links_[node].size(), parameters_.regions.edges_of_a_root);
  for (const Link& link : std::span(links_[node]).first(edges)) {
    cost += static_cast<double>(
        pair_cost(problem_, problem_.edges[link.edge], node, choice[node], choice[link.other]));
  }
  return cost;
}

void Regions::draw(const Choice& choice, std::mt19937_64& random) {
  for (const int i : nodes_) place_[i] = -1;
  nodes_.clear();
  const SolverParameters::Regions& parameters = parameters_.regions;
  const auto size = static_cast<std::size_t>(log_uniform(2, most_nodes_ + 2, random));
  const auto most_edges =
      static_cast<std::size_t>(log_uniform(static_cast<double>(parameters.least_edges),
                                           static_cast<double>(parameters.most_edges), random));
  const auto take = [&](int i) {
    place_[i] = static_cast<int>(nodes_.size());
    nodes_.push_back(i);
  };
  take(draw_root(choice, random));
  for (std::size_t k = 0; k < nodes_.size() && nodes_.size() < size; ++k) {
    for (const Link& link : links_[nodes_[k]]) {
      const bool is_small = links_[link.other].size() <= most_edges;
      if (place_[link.other] < 0 && is_small && nodes_.size() < size) take(link.other);
    }
  }
  note_times();
}

void Regions::note_times() {
  times_.clear();
  for (const int i : nodes_) {
    if (!is_limited(problem_.nodes[i])) continue;
    times_.push_back(problem_.nodes[i].first);
    times_.push_back(problem_.nodes[i].end);
  }
  std::ranges::sort(times_);
  times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
}

AssignmentProblem Regions::make_problem(const Choice& choice, const UsageTree& usage) const {
  AssignmentProblem region;
  region.nodes.reserve(nodes_.size());
  for (const int i : nodes_) {
    auto& node = region.nodes.emplace_back(problem_.nodes[i]);
    for (const Link& link : links_[i]) {
      const auto& edge = problem_.edges[link.edge];
      if (place_[link.other] < 0) {
        for (std::size_t s = 0; s < node.costs.size(); ++s) {
          node.costs[s] = plus(node.costs[s], pair_cost(problem_, edge, i, s, choice[link.other]));
        }
      } else if (edge.a == i) {
        region.edges.push_back({place_[edge.a], place_[edge.b], edge.costs});
      }
    }
  }
  limit_usage(choice, usage, region);
  return region;
}

/// Times between which no usage of the region changes are one; its limit is what the others leave.
void Regions::limit_usage(const Choice& choice, const UsageTree& usage,
                          AssignmentProblem& region) const {
  if (times_.empty()) return;
  std::vector<std::int64_t> own(times_.size(), 0);
  for (auto& node : region.nodes) {
    const auto i = static_cast<std::size_t>(&node - region.nodes.data());
    if (!is_limited(node)) continue;
    const auto place = [&](int time) {
      return static_cast<int>(std::ranges::lower_bound(times_, time) - times_.begin());
    };
    node.first = place(node.first);
    node.end = place(node.end);
    own[node.first] += node.usages[choice[nodes_[i]]];
    own[node.end] -= node.usages[choice[nodes_[i]]];
  }
  std::int64_t used = 0;
  for (std::size_t k = 0; k + 1 < times_.size(); ++k) {
    used += own[k];
    region.usage_limits.push_back(used - usage.most_in(times_[k], times_[k + 1]));
  }
}

std::vector<double> Regions::prices(const std::vector<double>& price_until) const {
  std::vector<double> result;
  for (std::size_t k = 0; k + 1 < times_.size(); ++k) {
    result.push_back(price_until[times_[k + 1]] - price_until[times_[k]]);
  }
  return result;
}

std::optional<RegionMove> Regions::find(const Choice& choice, const UsageTree& usage,
                                        const std::vector<double>& price_until,
                                        std::mt19937_64& random, const Deadline& deadline) {
  const SolverParameters::Regions& parameters = parameters_.regions;
  draw(choice, random);
  const AssignmentProblem region = make_problem(choice, usage);
  Choice present;
  for (const int i : nodes_) present.push_back(choice[i]);
  const Cost cost = cost_of(region, present);
  const Deadline end = Deadline(deadline.left(), clock_).within_work(parameters.most_seconds);
  const std::size_t parts = region.nodes.size() + region.edges.size();
  end.count(parameters.seconds_of_region + static_cast<double>(parts) * parameters.seconds_of_node);
  const auto found = search_labels(region, prices(price_until),
                                   {.goal = cost,
                                    .most_cells = parameters.most_cells,
                                    .most_comparisons = parameters.most_comparisons,
                                    .deadline = end},
                                   parameters_);
  if (!found) {
    most_nodes_ = std::max(1.0, most_nodes_ * parameters.shrinking);
    return std::nullopt;
  }
  most_nodes_ =
      std::min(static_cast<double>(parameters.most_nodes), most_nodes_ * parameters.growth);
  if (!found->choice) return std::nullopt;
  return RegionMove{nodes_, *found->choice, cost - cost_of(region, *found->choice)};
}

}  // namespace autopar::assignment
