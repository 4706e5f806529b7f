#include "search/search_at_rest.h"

#include <algorithm>
#include <utility>

#include "search/first_plans.h"

namespace autopar::search {

namespace {

/// The part of the memory limit that the first plan may need, so that better ones will fit, too.
constexpr double most_of_limit = 0.5;

}  // namespace

SearchAtRest search_at_rest(PlanTask task) {
  Incumbent best;
  start_from_coarser(task, best);
  if (best.starts.empty()) return {};
  consider(task, std::vector<int>(best.starts.front()), best);
  if (best.choice.empty()) return {};
  const double peak = static_cast<double>(peak_of(best.plans));
  if (peak > most_of_limit * static_cast<double>(task.limit()))
    return {answer_of(std::move(task), std::move(best), 0)};
  assignment::Solution solution;
  if (task.seconds_left() > best.seconds_to_predict)
    solution = solve_exactly(task, task.built.problem, best);
  const bool fits = solution.cost >= best.cost || consider(task, solution.choice, best) <= 0;
  const assignment::Cost bound = std::max(bound_of(solution), bound_of_operators(task));
  return {answer_of(std::move(task), std::move(best), bound), fits};
}

}  // namespace autopar::search
