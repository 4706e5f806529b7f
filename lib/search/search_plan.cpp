// Whether a plan fits is decided by the peak that is predicted for its shards, which the assignment
// problem's sums only approximate. Hence a search of several solves:
// 1. without limits: where the cheapest plan of all fits, it is found soon;
// 2. under the limits, which are lowered by the excess as long as the shards exceed them;
// 3. where nothing fits so far, under a fair share of the weights, and then for the least memory,
//    which shows whether anything fits at all.

#include "search/search_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/interruption.h"
#include "search/least_memory.h"
#include "search/operator_bound.h"
#include "search/plan_task.h"
#include "search/propagation.h"
#include "search/recursive.h"

namespace autopar::search {

namespace {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::Solution;
using assignment::Status;
using graph::Graph;

/// Solves, each under lower limits than the one before.
constexpr int most_attempts = 8;

void warn_of_missing_rules(const std::vector<std::string>& op_types) {
  if (op_types.empty()) return;
  std::map<std::string, int> counts;
  for (const std::string& op_type : op_types) ++counts[op_type];
  std::string text;
  for (const auto& [op_type, count] : counts) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", op_type, count);
  }
  spdlog::warn("no sharding rule for {}: every rank runs these whole", text);
}

/// The cost of a choice beyond its operators'.
double communication_seconds(const PlanTask& task, const plan::Plan& plan) {
  const Graph& graph = task.stage.graph;
  double computation = 0;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    const auto rule = sharding::sharding_rule(graph, node);
    computation += task.cost.operator_seconds(
        graph, node, rule ? *rule : sharding::replicated_rule(graph, node), plan.operators[id]);
  }
  return std::max(0.0, plan.predicted.cost_seconds - computation);
}

/// Propagation begins with the operators that the user has pinned, or with the heaviest one.
std::vector<graph::NodeId> seeds_of(const PlanTask& task) {
  const Graph& graph = task.stage.graph;
  const Pins pins(task.options.pins, graph);
  std::vector<graph::NodeId> pinned;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    if (pins.is_pinned(graph.nodes[id].name)) pinned.push_back(static_cast<graph::NodeId>(id));
  }
  if (!pinned.empty() || graph.nodes.empty()) return pinned;
  const graph::NodeId heaviest = heaviest_first(task.built).front();
  spdlog::info("--strategy pins no operator: propagating from the heaviest, '{}'",
               graph.node(heaviest).name);
  return {heaviest};
}

Solution solve_quickly(const PlanTask& task, const AssignmentProblem& problem,
                       const std::vector<graph::NodeId>& seeds) {
  const sharding::DeviceMesh& mesh = task.cost.mesh();
  auto choice = task.options.method == SearchMethod::propagation
                    ? choose_by_propagation(task.built, problem, mesh, seeds)
                    : choose_recursively(task.built, problem, mesh);
  if (!choice) return {};
  const Cost cost = assignment::cost_of(problem, *choice);
  return {.status = Status::feasible, .choice = std::move(*choice), .cost = cost};
}

Cost bound_of(const Solution& solution) {
  return solution.status == Status::infeasible ? 0 : solution.lower_bound;
}

/// The first solution, and what is learnt on the way to it.
struct FirstSolution {
  Solution solution;
  Cost bound_without_limits = 0;
  std::optional<assignment::LeastPeak> least{};  ///< where it was needed
};

/// Where even the plan of the least memory does not fit, throws NothingFits.
FirstSolution solve_under_limits(const PlanTask& task, const Solution& cheapest,
                                 Incumbent& incumbent) {
  const AssignmentProblem& problem = task.built.problem;
  if (auto quick = choose_recursively(task.built, problem, task.cost.mesh())) {
    consider(task, *quick, incumbent);
    incumbent.starts.push_back(std::move(*quick));
  }
  FirstSolution first{solve_exactly(task, problem, incumbent), bound_of(cheapest)};
  if (first.solution.choice.empty() && incumbent.choice.empty()) {
    first.least = find_least_memory(task, incumbent);
    require_to_fit(task, *first.least);
    if (!assignment::within_limits(problem, first.least->choice)) return first;
    incumbent.starts = {first.least->choice};
    first.solution = solve_exactly(task, problem, incumbent);
  }
  if (first.solution.status != Status::infeasible) {
    first.solution.lower_bound = std::max(first.solution.lower_bound, cheapest.lower_bound);
  }
  return first;
}

FirstSolution solve_from_no_limits(const PlanTask& task, Incumbent& incumbent) {
  AssignmentProblem unlimited = task.built.problem;
  unlimited.usage_limits.clear();
  Solution cheapest = solve_exactly(task, unlimited, incumbent);
  const Cost bound = bound_of(cheapest);
  if (cheapest.status == Status::infeasible && !task.options.pins.empty())
    throw NothingFits(
        "no plan has all that --strategy pins: some of its entries contradict "
        "others, or --loop; leave out one after the other to see which",
        std::numeric_limits<std::int64_t>::max(), true);
  if (cheapest.status == Status::infeasible) return {std::move(cheapest), bound};
  if (!cheapest.choice.empty()) {
    consider(task, cheapest.choice, incumbent);
    incumbent.starts.push_back(cheapest.choice);
  }
  const bool is_enough = cheapest.status == Status::optimal || task.seconds_left() > 0;
  if (!incumbent.choice.empty() && is_enough) return {std::move(cheapest), bound};
  return solve_under_limits(task, cheapest, incumbent);
}

/// No choice costs less than every operator's cheapest strategy; `--bound` asks for a better bound.
Cost bound_of_quick_method(const PlanTask& task, Incumbent& incumbent) {
  Cost least = 0;
  for (const auto& operators : task.built.operators) least += std::ranges::min(operators->costs);
  if (!task.options.bound) return least;
  return std::max(least, bound_of(solve_exactly(task, task.built.problem, incumbent)));
}

/// The sums miss what shards fuse less than the whole model does. A plan within a fair share of the
/// weights may then fit where none was found by the sums.
void consider_fair_plan(const PlanTask& task, Incumbent& incumbent) {
  if (!task.is_exact() || task.options.memory.kind != MemoryPolicy::Kind::bytes) return;
  SearchOptions fair = task.options;
  fair.memory.kind = MemoryPolicy::Kind::fair;
  const PlanProblem built =
      build_plan_problem(task.stage.graph, task.cost, fair, task.stage.received);
  incumbent.starts.clear();
  const Solution solution = solve_exactly(task, built.problem, incumbent);
  if (solution.choice.empty()) return;
  const std::vector<int> choice = carried_over(built, solution.choice, task.built);
  if (!choice.empty()) consider(task, choice, incumbent);
}

SearchReport report_of(const PlanTask& task, const Incumbent& best, Cost lower_bound) {
  SearchReport report;
  report.method = task.options.method;
  report.bound_is_searched = task.is_exact() || task.options.bound;
  report.lower_bound_seconds = std::max(0.0, static_cast<double>(lower_bound) * seconds_per_cost);
  report.proven_optimal = best.cost == lower_bound;
  report.one_device_seconds = least_seconds_on(1, task.stage.graph, task.cost.device());
  report.one_device_bytes = bytes_on_one_device(task.stage.graph);
  report.glpk_seconds = best.glpk_seconds;
  report.search_seconds = task.stopwatch.seconds();
  return report;
}

SolvedPlan solve(PlanTask task) {
  const std::vector<graph::NodeId> seeds = task.options.method == SearchMethod::propagation
                                               ? seeds_of(task)
                                               : std::vector<graph::NodeId>{};
  if (task.options.warns) warn_of_missing_rules(task.built.operators_without_rule);
  Incumbent best;
  AssignmentProblem problem = task.built.problem;  // with the limits of the last attempt
  const auto solve_once = [&] {
    return task.is_exact() ? solve_exactly(task, problem, best)
                           : solve_quickly(task, problem, seeds);
  };
  auto [solution, bound_without_limits, least] = task.is_exact() && task.options.presolve
                                                     ? solve_from_no_limits(task, best)
                                                     : FirstSolution{solve_once()};
  Cost lower_bound = task.is_exact() ? bound_of(solution) : bound_of_quick_method(task, best);
  for (int attempt = 0; attempt < most_attempts && !solution.choice.empty(); ++attempt) {
    const std::int64_t excess = consider(task, solution.choice, best);
    if (excess <= 0) break;
    const std::int64_t lower =
        std::max<std::int64_t>(0, summed_peak(task, solution.choice) - excess);
    std::fill(problem.usage_limits.begin() + 1, problem.usage_limits.end(), lower);
    best.starts.push_back(std::move(solution.choice));
    solution = solve_once();
  }
  if (best.choice.empty()) consider_fair_plan(task, best);
  if (best.choice.empty()) {
    if (!least) least = find_least_memory(task, best);
    problem.usage_limits = task.built.problem.usage_limits;
    require_to_fit(task, *least);
    consider(task, least->choice, best);
  }
  // Shards may need less than the sums: then the bound under limits is not one for this plan.
  if (best.cost < lower_bound) lower_bound = 0;
  lower_bound = std::max(lower_bound, bound_without_limits);
  best.plan.predicted.cost_seconds = static_cast<double>(best.cost) * seconds_per_cost;
  best.plan.predicted.communication_seconds = communication_seconds(task, best.plan);
  best.plan.predicted.weight_bytes =
      assignment::usage_over_time(task.built.problem, best.choice).front();
  SearchReport report = report_of(task, best, lower_bound);
  // The best plan may be from an attempt before the last.
  if (assignment::within_limits(problem, best.choice)) task.built.problem = std::move(problem);
  return {std::move(best.plan), std::move(report), std::move(task.built), std::move(best.choice)};
}

}  // namespace

void warn_of_missing_rules(const Graph& graph) {
  std::vector<std::string> op_types;
  for (const graph::Node& node : graph.nodes) {
    if (!sharding::sharding_rule(graph, node)) op_types.push_back(qualified_op_type(node));
  }
  warn_of_missing_rules(op_types);
}

SolvedPlan search_plan(const Graph& graph, const cost::CostModel& cost,
                       const SearchOptions& options) {
  return search_plan(graph::whole_stage(graph), cost, options);
}

SolvedPlan search_plan(const graph::StageGraph& stage, const cost::CostModel& cost,
                       const SearchOptions& options) {
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best plan so far will do
  const Stopwatch stopwatch;
  return solve({.stopwatch = stopwatch,
                .stage = stage,
                .cost = cost,
                .options = options,
                .built = build_plan_problem(stage.graph, cost, options, stage.received)});
}

}  // namespace autopar::search
