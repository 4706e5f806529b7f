#include "assignment/presolve/core_incumbent.h"

#include <utility>

#include "assignment/presolve/usage_rows.h"
#include "assignment/saturating.h"

namespace autopar::assignment {

void CoreIncumbent::add(const std::vector<int>& nodes, const Incumbent& component) {
  bound += component.bound;
  cost += component.cost;
  has_choice = has_choice && !component.choice.empty();
  for (std::size_t k = 0; k < component.choice.size(); ++k) choice[nodes[k]] = component.choice[k];
}

Incumbent CoreIncumbent::of_whole(const Presolved& presolved) const {
  if (!has_choice) return {.bound = saturated(bound)};
  return make_incumbent(presolved.original(choice), saturated(cost), saturated(bound));
}

std::vector<std::vector<int>> starts_of_core(const Subproblem& whole, const Presolved& presolved) {
  std::vector<std::vector<int>> starts;
  for (const auto& start : whole.starts) {
    if (auto reduced = presolved.reduced(start)) starts.push_back(std::move(*reduced));
  }
  return starts;
}

std::optional<Subproblem> component_of(const Subproblem& whole, const Presolved& presolved,
                                       AssignmentProblem problem, const std::vector<int>& nodes,
                                       const std::vector<std::vector<int>>& starts,
                                       const CoreIncumbent& so_far, double share) {
  Subproblem component{.problem = std::move(problem),
                       .cutoff = saturated(whole.cutoff - so_far.bound),
                       .prices = presolved.prices,
                       .deadline = whole.deadline.share(share),
                       .patience = whole.patience,
                       .is_root = whole.is_root};
  Patience& patience = component.patience;
  patience.cost_elsewhere += static_cast<double>(saturated(so_far.bound));
  if (so_far.has_choice) patience.gap_elsewhere += static_cast<double>(so_far.cost - so_far.bound);
  if (!compress_usage(component.problem, &component.prices)) return std::nullopt;
  for (const auto& start : starts) {
    std::vector<int>& part = component.starts.emplace_back();
    for (const int i : nodes) part.push_back(start[i]);
  }
  return component;
}

}  // namespace autopar::assignment
