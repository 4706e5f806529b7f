#include "search/plan_task.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "assignment/elimination/elimination.h"
#include "assignment/presolve/presolve.h"
#include "program/pipeline_program.h"
#include "search/operator_bound.h"
#include "search/problem_parts.h"

namespace autopar::search {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::Solution;
using graph::Graph;

namespace {

/// --memory device is told of where it saves so much, as a part of the plan's cost.
constexpr double worth_telling = 0.02;
/// Where the choices that are left make larger tables, a plan is not carried over.
constexpr double most_cells_of_a_table = 4e6;

/// The largest sum of what is alive while one part runs, and at rest.
std::int64_t summed_peak(const PlanTask& task, const std::vector<int>& choice, std::size_t part) {
  const std::vector<std::int64_t> usage = assignment::usage_over_time(task.built.problem, choice);
  const PlanProblem::Part& own = task.built.parts[part];
  const auto first = usage.begin() + own.first_node + 1;
  return std::accumulate(first, usage.begin() + own.end_node + 1, usage.front(),
                         [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}

/// What a part's shards need, beside the weights of all.
std::int64_t predicted_peak(const PlanTask& task, const std::vector<int>& choice,
                            const plan::Plan& plan, std::size_t part) {
  const SearchOptions& options = task.options;
  const Profile& profile = task.profiles[part];
  return options.rank0_bytes + weight_bytes_of_others(task.built, choice, part) +
         program::predict_peak_bytes(*profile.stage, plan, profile.cost->device(),
                                     options.microbatches, options.run_bytes);
}

/// The cost of a plan beyond its operators'.
double communication_seconds(const Profile& profile, const plan::Plan& plan) {
  const Graph& graph = profile.stage->graph;
  double computation = 0;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    computation += profile.cost->operator_seconds(
        graph, node, sharding::rule_or_replicated(graph, node), plan.operators[id]);
  }
  return std::max(0.0, plan.predicted.cost_seconds - computation);
}

/// Under a fair limit a plan without one was found, too: its seconds where it saves enough to be
/// worth telling, fits the device, and there is time to see whether it does; else 0.
double seconds_with_device_memory(const PlanTask& task, Incumbent& best) {
  if (best.without_limits.empty() || task.seconds_left() < best.seconds_to_predict) return 0;
  const double faster = in_seconds(assignment::cost_of(task.built.problem, best.without_limits));
  const bool is_worth_telling = faster < (1 - worth_telling) * in_seconds(best.cost);
  if (!is_worth_telling) return 0;
  return peak_of(plans_of(task, best.without_limits, best)) <= task.limit() ? faster : 0;
}

SearchReport report_of(const PlanTask& task, Incumbent& best, Cost lower_bound) {
  const double device_memory_seconds = seconds_with_device_memory(task, best);  // takes time itself
  return {.method = task.options.method,
          .search_seconds = task.stopwatch.seconds(),
          .build_seconds = task.build_seconds,
          .predict_seconds = best.seconds_to_predict,
          .glpk_seconds = best.glpk_seconds,
          .lower_bound_seconds = std::max(0.0, in_seconds(lower_bound)),
          .proven_optimal = best.cost == lower_bound,
          .bound_is_searched = task.is_exact() || task.options.bound,
          .one_device_seconds = least_seconds_on(1, task.profiles),
          .one_device_bytes = bytes_on_one_device(task.profiles),
          .device_memory_seconds = device_memory_seconds};
}

/// What is predicted of each profile, and of all.
plan::Prediction predict(const PlanTask& task, Incumbent& best) {
  const std::int64_t weight_bytes =
      assignment::usage_over_time(task.built.problem, best.choice).front();
  const std::vector<double> seconds = seconds_by_part(task.built, best.choice);
  plan::Prediction all{.cost_seconds = in_seconds(best.cost), .weight_bytes = weight_bytes};
  for (std::size_t p = 0; p < seconds.size(); ++p) {
    plan::Prediction& own = best.plans[p].predicted;
    own.cost_seconds = seconds[p];
    own.communication_seconds = communication_seconds(task.profiles[p], best.plans[p]);
    own.weight_bytes = weight_bytes;
    all.communication_seconds += task.profiles[p].weight * own.communication_seconds;
  }
  all.peak_bytes = peak_of(best.plans);
  return all;
}

}  // namespace

std::int64_t summed_peak(const PlanTask& task, const std::vector<int>& choice) {
  return std::ranges::max(assignment::usage_over_time(task.built.problem, choice));
}

std::vector<plan::Plan> plans_of(const PlanTask& task, const std::vector<int>& choice,
                                 Incumbent& incumbent) {
  const Stopwatch stopwatch;
  std::vector<plan::Plan> plans;
  for (std::size_t p = 0; p < task.profiles.size(); ++p) {
    plan::Plan& plan = plans.emplace_back(decode(task.built, choice, *task.profiles[p].cost, p));
    plan.predicted.peak_bytes = task.options.run_bytes ? predicted_peak(task, choice, plan, p)
                                                       : summed_peak(task, choice, p);
  }
  incumbent.seconds_to_predict = std::max(incumbent.seconds_to_predict, stopwatch.seconds());
  return plans;
}

std::int64_t peak_of(const std::vector<plan::Plan>& plans) {
  std::int64_t peak = 0;
  for (const plan::Plan& plan : plans) peak = std::max(peak, plan.predicted.peak_bytes);
  return peak;
}

bool is_fair(const PlanTask& task, const std::vector<int>& choice) {
  const AssignmentProblem& problem = task.built.problem;
  const std::int64_t limit_at_rest = problem.usage_limits.front();
  return limit_at_rest < 0 || assignment::usage_over_time(problem, choice).front() <= limit_at_rest;
}

std::int64_t consider(const PlanTask& task, const std::vector<int>& choice, Incumbent& incumbent) {
  std::vector<plan::Plan> plans = plans_of(task, choice, incumbent);
  const std::int64_t excess = peak_of(plans) - task.limit();
  const Cost cost = assignment::cost_of(task.built.problem, choice);
  if (excess <= 0 && cost < incumbent.cost && is_fair(task, choice)) {
    incumbent.choice = choice;
    incumbent.cost = cost;
    incumbent.plans = std::move(plans);
  }
  return excess;
}

Solution solve_exactly(const PlanTask& task, const AssignmentProblem& problem, Incumbent& incumbent,
                       const SolveTime& time) {
  const double seconds_left = task.seconds_left() - incumbent.seconds_to_predict;
  Solution solution = assignment::solve(
      problem, {.time_limit_seconds = std::max(time.least_seconds, time.share * seconds_left),
                .work_limit_seconds = time.work_limit_seconds,
                .patience_seconds = time.patience_seconds,
                .presolve = task.options.presolve,
                .starts = incumbent.starts,
                .threads = task.options.threads});
  incumbent.glpk_seconds += solution.glpk_seconds;
  return solution;
}

std::vector<int> carried_over(const PlanProblem& from, const std::vector<int>& choice,
                              const PlanTask& task) {
  const PlanProblem& to = task.built;
  AssignmentProblem problem = to.problem;
  problem.usage_limits.clear();
  for (std::size_t id = 0; id < to.operators.size(); ++id) fix(problem.nodes[id], choice[id]);
  for (std::size_t i = 0; i < to.stored.size(); ++i)
    fix(problem.nodes[to.stored[i].node], choice[from.stored[i].node]);
  const auto reduced = presolve(std::move(problem));
  if (!reduced) return {};
  const auto rest =
      choose_by_elimination(reduced->core, {.most_cells_of_a_table = most_cells_of_a_table});
  return rest ? reduced->original(*rest) : std::vector<int>{};
}

Cost bound_of(const Solution& solution) {
  return solution.status == assignment::Status::infeasible ? 0 : solution.lower_bound;
}

Cost bound_of_operators(const PlanTask& task) {
  Cost least = 0;
  for (const auto& operators : task.built.operators) least += std::ranges::min(operators->costs);
  return least;
}

JointPlan answer_of(PlanTask task, Incumbent best, Cost lower_bound) {
  const plan::Prediction predicted = predict(task, best);
  SearchReport report = report_of(task, best, lower_bound);
  return {std::move(best.plans), predicted, std::move(report), std::move(task.built),
          std::move(best.choice)};
}

}  // namespace autopar::search
