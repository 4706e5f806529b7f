#include "assignment/arc_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

namespace autopar::assignment {

constexpr double most_exact = 1125899906842624.0;  // 2^50

double ArcCosts::scale_for(WideCost typical) {
  const double bits = std::ceil(std::log2(static_cast<double>(typical) + 1));
  return std::exp2(std::clamp(46 - bits, 0.0, 30.0));
}

ArcCosts::ArcCosts(const AssignmentProblem& problem, double scale, std::optional<double> most)
    : scale_(scale) {
  const auto scaled = [&](Cost cost) {
    if (cost >= impossible) return most.value_or(std::numeric_limits<double>::infinity());
    return std::min(static_cast<double>(cost) * scale, most.value_or(most_exact));
  };
  first_strategy_.push_back(0);
  for (const auto& node : problem.nodes) {
    for (const Cost cost : node.costs) node_costs_.push_back(scaled(cost));
    first_strategy_.push_back(node_costs_.size());
  }
  auto links = links_of(problem);
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> first_end(problem.edges.size(), none);
  // Tables that edges share are here once for each direction.
  std::map<std::tuple<const void*, std::size_t, bool>, std::size_t> matrices;
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    first_arc_.push_back(arcs_.size());
    std::ranges::stable_sort(links[i], {}, &Link::other);
    for (const auto& [k, other] : links[i]) {
      const auto& edge = problem.edges[k];
      const std::size_t columns = strategies(edge.b);
      const bool is_a = edge.a == static_cast<int>(i);
      const auto [matrix, is_new] =
          matrices.try_emplace({edge.costs.identity(), columns, is_a}, costs_.size());
      if (is_new) {
        for (std::size_t t = 0; t < strategies(other); ++t) {
          for (std::size_t s = 0; s < strategies(i); ++s) {
            costs_.push_back(scaled(edge.costs[is_a ? s * columns + t : t * columns + s]));
          }
        }
      }
      const Arc arc{static_cast<int>(i), other, first_end[k], matrix->second, message_entries_};
      message_entries_ += strategies(i);
      if (first_end[k] != none) arcs_[first_end[k]].reverse = arcs_.size();
      first_end[k] = arcs_.size();
      arcs_.push_back(arc);
    }
  }
  first_arc_.push_back(arcs_.size());
}

}  // namespace autopar::assignment
