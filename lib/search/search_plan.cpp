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

#include "assignment/elimination/elimination.h"
#include "assignment/least_peak.h"
#include "assignment/presolve/presolve.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "program/pipeline_program.h"
#include "search/operator_bound.h"
#include "search/problem_parts.h"
#include "search/quick_searches.h"

namespace autopar::search {

namespace {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::LeastPeak;
using assignment::Solution;
using assignment::Status;
using graph::Graph;

constexpr std::int64_t unknown_bytes = std::numeric_limits<std::int64_t>::max();
/// Solves, each under lower limits than the one before.
constexpr int most_attempts = 8;
/// Seconds of work after which a plan is good enough that is proven to a thousandth.
constexpr double patience_seconds = 3;
/// The part of the time left for a solve under limits.
constexpr double share_of_solve = 0.7;
/// The part of the time left for the least peak.
constexpr double share_of_least_peak = 0.7;
/// The least time for it: without it there is no plan at all. A small model needs far less.
constexpr double least_seconds_for_a_plan = 10;
/// Sums above the least, as a part of it, whose cheapest plans are tried too.
constexpr double slacks[] = {0.0, 0.02, 0.05};
/// Where the choices that are left make larger tables, a plan is not carried over.
constexpr double most_cells_of_a_table = 4e6;

/// What one search of a plan is for. All of it is known before the first solve.
struct PlanTask {
  Stopwatch stopwatch{};  ///< from before the problem was built
  const graph::StageGraph& stage;
  const cost::CostModel& cost;
  const SearchOptions& options;
  PlanProblem built;

  bool is_exact() const { return options.method == SearchMethod::ilp; }
  double seconds_left() const { return options.time_limit_seconds - stopwatch.seconds(); }
  /// Bytes of weights and activations together.
  std::int64_t limit() const { return built.problem.usage_limits.back(); }
};

/// The cheapest plan so far whose shards fit, and what later solves may use of earlier ones.
struct Incumbent {
  std::vector<int> choice;  ///< empty where there is none
  Cost cost = assignment::impossible;
  plan::Plan plan;
  std::vector<std::vector<int>> starts;  ///< choices that the next exact solve begins with
  double glpk_seconds = 0;               ///< of all solves
};

/// The largest sum of what is alive, as the search counts it.
std::int64_t summed_peak(const PlanTask& task, const std::vector<int>& choice) {
  return std::ranges::max(assignment::usage_over_time(task.built.problem, choice));
}

/// A choice's plan with its peak alone predicted.
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

/// Takes the choice where it is cheaper than the incumbent and its shards fit. Returns the bytes by
/// which its peak exceeds the limit, negative where it is below.
std::int64_t consider(const PlanTask& task, const std::vector<int>& choice, Incumbent& incumbent) {
  const AssignmentProblem& problem = task.built.problem;
  plan::Plan plan = plan_of(task, choice);
  const std::int64_t excess = plan.predicted.peak_bytes - task.limit();
  const Cost cost = assignment::cost_of(problem, choice);
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

/// Within a share of the time left where limits bind, since more may have to follow; at least
/// `least_seconds`.
Solution solve_exactly(const PlanTask& task, const AssignmentProblem& problem, Incumbent& incumbent,
                       double least_seconds = 0) {
  const double share = problem.usage_limits.empty() ? 1 : share_of_solve;
  Solution solution = assignment::solve(
      problem, {.time_limit_seconds = std::max(least_seconds, share * task.seconds_left()),
                .patience_seconds = patience_seconds,
                .presolve = task.options.presolve,
                .starts = incumbent.starts,
                .threads = task.options.threads});
  incumbent.glpk_seconds += solution.glpk_seconds;
  return solution;
}

/// The cheapest choice that stands for the same plan in the task's problem, where `from` counts
/// memory otherwise; empty where there is none.
std::vector<int> carried_over(const PlanProblem& from, const std::vector<int>& choice,
                              const PlanTask& task) {
  const PlanProblem& to = task.built;
  AssignmentProblem problem = to.problem;
  problem.usage_limits.clear();
  for (std::size_t id = 0; id < to.operators.size(); ++id) fix(problem.nodes[id], choice[id]);
  for (const auto& [value, stored] : to.stored)
    fix(problem.nodes[stored.node], choice[from.stored.at(value).node]);
  const auto reduced = presolve(std::move(problem));
  if (!reduced) return {};
  const auto rest = choose_by_elimination(reduced->core, most_cells_of_a_table);
  return rest ? reduced->original(*rest) : std::vector<int>{};
}

std::string in_mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB ({} bytes)", static_cast<double>(bytes) / 1048576.0, bytes);
}

/// The choice whose shards need least among those of the least summed peak, or a little more: the
/// cheapest ones communicate less, and shards' arenas are packed differently.
std::vector<int> least_to_pack(const PlanTask& task, PlanProblem built, const LeastPeak& least,
                               int first, Incumbent& incumbent) {
  std::vector<int> best = carried_over(built, least.choice, task);
  const auto packed = [&](const std::vector<int>& choice) {
    return choice.empty() ? unknown_bytes : plan_of(task, choice).predicted.peak_bytes;
  };
  auto& limits = built.problem.usage_limits;
  incumbent.starts = {least.choice};
  double least_seconds = least_seconds_for_a_plan;
  for (const double slack : slacks) {
    const auto limit = static_cast<std::int64_t>((1 + slack) * static_cast<double>(least.peak));
    std::fill(limits.begin() + first, limits.end(), limit);
    const Solution solution =
        solve_exactly(task, built.problem, incumbent, std::exchange(least_seconds, 0));
    if (solution.choice.empty()) continue;
    std::vector<int> cheapest = carried_over(built, solution.choice, task);
    if (packed(cheapest) <= packed(best)) best = std::move(cheapest);
  }
  return best;
}

/// The choice that needs least memory, whatever it costs; weights stay within a fair share where
/// that is asked for. Throws NothingFits where the time or an interruption let none be found.
LeastPeak find_least_memory(const PlanTask& task, Incumbent& incumbent) {
  // Which sums are worth counting depends on the limit. Here it is decided for one and the same,
  // whatever was asked for, so that the least that is named is found again when it is asked for.
  SearchOptions options = task.options;
  if (options.memory.kind == MemoryPolicy::Kind::bytes)
    options.memory.bytes = bytes_on_one_device(task.stage.graph) / task.cost.mesh().num_devices();
  const int first = options.memory.kind == MemoryPolicy::Kind::fair ? 1 : 0;
  PlanProblem built = build_plan_problem(task.stage.graph, task.cost, options, task.stage.received);
  std::optional<LeastPeak> least;
  {
    // A first Ctrl-C lets it end, since without it there is no plan at all; a second does not.
    const InterruptionReprieve reprieve;
    const double seconds =
        std::max(least_seconds_for_a_plan, share_of_least_peak * task.seconds_left());
    least = assignment::find_least_peak(
        built.problem, first, static_cast<int>(built.problem.usage_limits.size()),
        {.time_limit_seconds = seconds, .threads = task.options.threads});
  }
  if (least) least->choice = least_to_pack(task, std::move(built), *least, first, incumbent);
  if (least && !least->choice.empty()) return *least;
  const char* const end = was_interrupted() ? "interruption" : "time limit";
  throw NothingFits(
      fmt::format("nothing fits a memory limit of {} a device, as far as the {} let see: raise "
                  "--memory or give the search more time",
                  in_mebibytes(task.limit()), end),
      unknown_bytes, false);
}

/// Throws NothingFits, which names the least memory known, where even that choice does not fit.
void require_to_fit(const PlanTask& task, const LeastPeak& least) {
  const std::int64_t peak = plan_of(task, least.choice).predicted.peak_bytes;
  if (peak <= task.limit()) return;
  throw NothingFits(
      fmt::format("nothing fits a memory limit of {} a device: the smallest known to do is {}: "
                  "raise --memory or add devices",
                  in_mebibytes(task.limit()), in_mebibytes(peak)),
      peak, least.lower_bound > task.limit());
}

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
    computation += task.cost.operator_seconds(
        graph, node, sharding::rule_or_replicated(graph, node), plan.operators[id]);
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
  std::optional<LeastPeak> least{};  ///< where it was needed
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
        unknown_bytes, true);
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
  const std::vector<int> choice = carried_over(built, solution.choice, task);
  if (!choice.empty()) consider(task, choice, incumbent);
}

SearchReport report_of(const PlanTask& task, const Incumbent& best, Cost lower_bound) {
  return {.method = task.options.method,
          .search_seconds = task.stopwatch.seconds(),
          .glpk_seconds = best.glpk_seconds,
          .lower_bound_seconds = std::max(0.0, in_seconds(lower_bound)),
          .proven_optimal = best.cost == lower_bound,
          .bound_is_searched = task.is_exact() || task.options.bound,
          .one_device_seconds = least_seconds_on(1, task.stage.graph, task.cost.device()),
          .one_device_bytes = bytes_on_one_device(task.stage.graph)};
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
  best.plan.predicted.cost_seconds = in_seconds(best.cost);
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
