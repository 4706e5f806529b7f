#include "search/plan_task.h"

#include <algorithm>
#include <utility>

#include "assignment/elimination/elimination.h"
#include "assignment/presolve/presolve.h"
#include "program/pipeline_program.h"

namespace autopar::search {

namespace {

/// Seconds of work after which a plan is good enough that is proven to a thousandth.
constexpr double patience_seconds = 3;
/// The part of the time left for a solve under limits.
constexpr double share_of_solve = 0.7;
/// Where the choices that are left make larger tables, a plan is not carried over.
constexpr double most_cells_of_a_table = 4e6;

}  // namespace

std::int64_t summed_peak(const PlanTask& task, const std::vector<int>& choice) {
  return std::ranges::max(assignment::usage_over_time(task.built.problem, choice));
}

plan::Plan plan_of(const PlanTask& task, const std::vector<int>& choice) {
  const SearchOptions& options = task.options;
  plan::Plan plan = decode(task.built, choice, task.cost);
  plan.predicted.peak_bytes =
      options.run_bytes ? options.rank0_bytes +
                              program::predict_peak_bytes(task.stage, plan, task.cost.device(),
                                                          options.microbatches, options.run_bytes)
                        : summed_peak(task, choice);
  return plan;
}

std::int64_t consider(const PlanTask& task, const std::vector<int>& choice, Incumbent& incumbent) {
  const assignment::AssignmentProblem& problem = task.built.problem;
  plan::Plan plan = plan_of(task, choice);
  const std::int64_t excess = plan.predicted.peak_bytes - task.limit();
  const assignment::Cost cost = assignment::cost_of(problem, choice);
  const std::int64_t limit_at_rest = problem.usage_limits.front();
  const bool is_fair =
      limit_at_rest < 0 || assignment::usage_over_time(problem, choice).front() <= limit_at_rest;
  if (excess <= 0 && is_fair && cost < incumbent.cost) {
    incumbent.choice = choice;
    incumbent.cost = cost;
    incumbent.plan = std::move(plan);
  }
  return excess;
}

assignment::Solution solve_exactly(const PlanTask& task,
                                   const assignment::AssignmentProblem& problem,
                                   Incumbent& incumbent, double least_seconds) {
  const double share = problem.usage_limits.empty() ? 1 : share_of_solve;
  assignment::Solution solution = assignment::solve(
      problem, {.time_limit_seconds = std::max(least_seconds, share * task.seconds_left()),
                .patience_seconds = patience_seconds,
                .presolve = task.options.presolve,
                .starts = incumbent.starts,
                .threads = task.options.threads});
  incumbent.glpk_seconds += solution.glpk_seconds;
  return solution;
}

std::vector<int> carried_over(const PlanProblem& from, const std::vector<int>& choice,
                              const PlanProblem& to) {
  assignment::AssignmentProblem problem = to.problem;
  problem.usage_limits.clear();
  const auto fix = [&](std::size_t node, int strategy) {
    auto& costs = problem.nodes[node].costs;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      if (static_cast<int>(s) != strategy) costs[s] = assignment::impossible;
    }
  };
  for (std::size_t id = 0; id < to.operators.size(); ++id) fix(id, choice[id]);
  for (const auto& [value, stored] : to.stored) {
    fix(static_cast<std::size_t>(stored.node), choice[from.stored.at(value).node]);
  }
  const auto reduced = presolve(std::move(problem));
  if (!reduced) return {};
  const auto rest = choose_by_elimination(reduced->core, most_cells_of_a_table);
  return rest ? reduced->original(*rest) : std::vector<int>{};
}

}  // namespace autopar::search
