#include <spdlog/spdlog.h>

#include <algorithm>

#include "assignment/elimination/label_search.h"
#include "assignment/phases.h"

namespace autopar::assignment {

void search_below_goals(const MinMarginals& min_marginals, double seconds,
                        const SolveContext& context, Portfolio& portfolio) {
  const SolverParameters& parameters = context.parameters();
  const SolverParameters::Goals& goals = parameters.goals;
  const double ceiling = std::clamp(portfolio.seconds_to_relax(), goals.least_seconds_of_tables,
                                    goals.most_seconds_of_tables);
  const Cost bound = portfolio.relaxation().bound();
  double part = 1;
  while (part > goals.least_part_of_gap && !portfolio.is_finished()) {
    if (is_near_end(portfolio, context)) return;
    const double gap = static_cast<double>(portfolio.goal() - bound);
    const Cost goal = bound + static_cast<Cost>(part * gap);
    if (goal <= portfolio.bound()) return;
    Subproblem lower = fix_by_reduced_cost(portfolio, min_marginals, goal);
    const auto found =
        search_labels(std::move(lower.problem), std::move(lower.prices),
                      {.goal = portfolio.goal(),
                       .most_cells = std::min(seconds, ceiling) * parameters.work.cells_a_second,
                       .most_comparisons = goals.comparisons_over_cells * seconds *
                                           parameters.work.comparisons_a_second,
                       .deadline = lower.deadline},
                      parameters);
    if (!found) {
      part *= goals.step;
      continue;
    }
    portfolio.raise_bound(std::min(goal, found->bound));
    if (context.options.log) {
      spdlog::info("labels below {}: {}, bound {}{}", goal, found->choice ? "a choice" : "nothing",
                   found->bound, found->is_exact ? ", exact" : "");
    }
    if (!found->choice) return;
    // A better choice leaves less below it.
    portfolio.offer(*found->choice);
    part = 1;
  }
}

}  // namespace autopar::assignment
