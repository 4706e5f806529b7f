// Whether a plan fits is decided by the peak that is predicted for its shards, which the assignment
// problem's sums only approximate. Hence a search of several solves:
// 1. of a large problem, with memory at rest alone (search_at_rest.h), which mostly is the answer;
// 2. without limits: where the cheapest plan of all fits, it is found soon;
// 3. under the limits, which are lowered by the excess as long as the shards exceed them;
// 4. where nothing fits so far, under a fair share of the weights, and then for the least memory,
//    which shows whether anything fits at all;
// 5. of several profiles whose plan is far from proven: with weights as each wants them by itself.

#include "search/search_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/interruption.h"
#include "base/stopwatch.h"
#include "search/coarse_plan.h"
#include "search/first_plans.h"
#include "search/least_memory.h"
#include "search/missing_collectives.h"
#include "search/plan_task.h"
#include "search/problem_parts.h"
#include "search/quick_searches.h"
#include "search/search_at_rest.h"
#include "search/search_by_descent.h"

namespace autopar::search {

namespace {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::Solution;
using assignment::Status;
using graph::Graph;

/// Solves, each under lower limits than the one before.
constexpr int most_attempts = 8;
/// For a first solve without limits, which need not be proven to see whether they bind.
constexpr SolveTime time_without_limits = {.share = 0.15, .patience_seconds = 0.1};
/// The part of the time to see whether limits bind at all, where that is too slow.
constexpr double share_of_one_axis = 0.05;
/// The part of the time for descent, where the problem of all strategies may be solved behind it.
constexpr double share_of_descent = 0.5;

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

/// The name of an operator, by the problem's node.
const std::string& name_of_operator(const PlanTask& task, int op) {
  std::size_t part = 0;
  while (op >= task.built.parts[part].end_node) ++part;
  return task.profiles[part].stage->graph.node(op - task.built.parts[part].first_node).name;
}

/// Propagation begins with the operators that the user has pinned, or with the heaviest one.
std::vector<int> seeds_of(const PlanTask& task) {
  const std::vector<std::vector<Pin>> own = pins_by_profile(task.options.pins, task.profiles);
  std::vector<int> pinned;
  for (std::size_t p = 0; p < task.profiles.size(); ++p) {
    const Graph& graph = task.profiles[p].stage->graph;
    const Pins pins(own[p], graph);
    for (std::size_t id = 0; id < graph.nodes.size(); ++id)
      if (pins.is_pinned(graph.nodes[id].name))
        pinned.push_back(task.built.parts[p].first_node + static_cast<int>(id));
  }
  if (!pinned.empty() || task.built.operators.empty()) return pinned;
  const int heaviest = heaviest_first(task.built).front();
  spdlog::info("--strategy pins no operator: propagating from the heaviest, '{}'",
               name_of_operator(task, heaviest));
  return {heaviest};
}

Solution solve_quickly(const PlanTask& task, const AssignmentProblem& problem,
                       const std::vector<int>& seeds) {
  const sharding::DeviceMesh& mesh = task.mesh();
  auto choice = task.options.method == SearchMethod::propagation
                    ? choose_by_propagation(task.built, problem, mesh, seeds)
                    : choose_recursively(task.built, problem, mesh);
  if (!choice) return {};
  const Cost cost = assignment::cost_of(problem, *choice);
  return {.status = Status::feasible, .choice = std::move(*choice), .cost = cost};
}

/// The first solution, and what is learnt on the way to it.
struct FirstSolution {
  Solution solution;
  Cost bound_without_limits = 0;
  std::optional<LeastMemory> least{};  ///< where it was needed
};

/// A bound under limits, 0 where it was not worth looking for.
Cost improve_where_mostly_at_rest(const PlanTask& task, const Solution& cheapest,
                                  Incumbent& incumbent) {
  const bool is_fair = task.options.memory.kind == MemoryPolicy::Kind::fair;
  if (is_fair || !task.options.run_bytes || cheapest.choice.empty()) return 0;
  const std::vector<std::int64_t> usage =
      assignment::usage_over_time(task.built.problem, cheapest.choice);
  if (!is_mostly_at_rest(task, std::ranges::max(usage), usage.front())) return 0;
  return improve_at_rest(task, incumbent).bound;
}

/// A small problem is soon solved with all memory counted, too, and then mostly proven.
bool is_proven_enough(const PlanTask& task, const Incumbent& incumbent, Cost bound) {
  if (incumbent.choice.empty()) return false;
  const double gap = static_cast<double>(incumbent.cost - bound);
  return gap <= (task.is_small() ? 0 : small_gap) * static_cast<double>(incumbent.cost);
}

/// Where even the plan of the least memory does not fit, throws NothingFits.
void solve_from_least_memory(const PlanTask& task, Incumbent& incumbent, FirstSolution& first) {
  first.least = find_least_memory(task, incumbent);
  require_to_fit(task, *first.least);
  if (!assignment::within_limits(task.built.problem, first.least->choice)) return;
  incumbent.starts = {first.least->choice};
  first.solution = solve_exactly(task, task.built.problem, incumbent);
}

/// Throws NothingFits where even the plan of the least memory does not fit.
FirstSolution solve_under_limits(const PlanTask& task, const Solution& cheapest,
                                 Incumbent& incumbent) {
  const AssignmentProblem& problem = task.built.problem;
  if (is_recursive_quick(task)) start_from_recursive(task, incumbent);
  if (task.coarser != nullptr || !is_recursive_quick(task)) start_from_coarser(task, incumbent);
  const Cost bound_at_rest = improve_where_mostly_at_rest(task, cheapest, incumbent);
  if (is_proven_enough(task, incumbent, bound_at_rest)) {
    Solution solution{.status = Status::feasible,
                      .choice = incumbent.choice,
                      .cost = incumbent.cost,
                      .lower_bound = bound_at_rest};
    return {std::move(solution), bound_of(cheapest)};
  }
  FirstSolution first{solve_exactly(task, problem, incumbent), bound_of(cheapest)};
  if (first.solution.choice.empty()) consider_recursive(task, incumbent);
  if (first.solution.choice.empty() && incumbent.choice.empty()) {
    solve_from_least_memory(task, incumbent, first);
    if (first.solution.choice.empty()) return first;
  }
  if (first.solution.status != Status::infeasible) {
    first.solution.lower_bound =
        std::max({first.solution.lower_bound, cheapest.lower_bound, bound_at_rest});
  }
  return first;
}

/// Where a problem is so large that a search without limits would take long, and its plan would
/// exceed them, it is left out.
bool is_worth_solving_without_limits(const PlanTask& task) {
  return is_recursive_quick(task) || !task.options.pins.empty() ||
         !limits_bind_on_one_axis(task.built, task.profiles, task.options,
                                  share_of_one_axis * task.options.time_limit_seconds);
}

FirstSolution solve_from_no_limits(const PlanTask& task, Incumbent& incumbent) {
  if (!assignment::may_be_within_limits(task.built.problem)) {
    FirstSolution first;
    solve_from_least_memory(task, incumbent, first);
    return first;
  }
  if (!is_worth_solving_without_limits(task)) return solve_under_limits(task, {}, incumbent);
  AssignmentProblem unlimited = task.built.problem;
  unlimited.usage_limits.clear();
  Solution cheapest = solve_exactly(task, unlimited, incumbent, time_without_limits);
  if (cheapest.status == Status::infeasible && !task.options.pins.empty())
    throw NothingFits(
        "no plan has all that --strategy pins: some of its entries contradict "
        "others, or the states, which --loop none leaves out; try without one after the other",
        unknown_bytes, true);
  if (cheapest.status == Status::infeasible) return {std::move(cheapest), 0};
  if (!cheapest.choice.empty()) {
    if (is_fair(task, cheapest.choice))
      consider(task, cheapest.choice, incumbent);
    else
      incumbent.without_limits = cheapest.choice;
    incumbent.starts.push_back(cheapest.choice);
  }
  if (incumbent.choice.empty()) return solve_under_limits(task, cheapest, incumbent);
  // Limits do not bind.
  if (cheapest.status != Status::optimal && task.seconds_left() > 0) {
    const Cost bound = cheapest.lower_bound;
    cheapest = solve_exactly(task, unlimited, incumbent, {.share = 1});
    cheapest.lower_bound = std::max(cheapest.lower_bound, bound);
  }
  return {cheapest, bound_of(cheapest)};
}

/// `--bound` asks for a better one than that of the operators.
Cost bound_of_quick_method(const PlanTask& task, Incumbent& incumbent) {
  const Cost least = bound_of_operators(task);
  if (!task.options.bound) return least;
  return std::max(least, bound_of(solve_exactly(task, task.built.problem, incumbent)));
}

/// The sums miss what shards fuse less than the whole model does. A plan within a fair share of the
/// weights may then fit where none was found by the sums.
void consider_fair_plan(const PlanTask& task, Incumbent& incumbent) {
  if (!task.is_exact() || task.options.memory.kind != MemoryPolicy::Kind::bytes) return;
  SearchOptions fair = task.options;
  fair.memory.kind = MemoryPolicy::Kind::fair;
  const PlanProblem built = build_plan_problem(task.profiles, fair);
  incumbent.starts.clear();
  const Solution solution = solve_exactly(task, built.problem, incumbent);
  if (solution.choice.empty()) return;
  const std::vector<int> choice = carried_over(built, solution.choice, task);
  if (!choice.empty()) consider(task, choice, incumbent);
}

/// The problem with a part's weights in the places of a plan of its own; nullopt where pins of
/// other parts forbid one.
std::optional<AssignmentProblem> with_weights_of(const PlanTask& task, const plan::Plan& plan,
                                                 std::size_t part) {
  AssignmentProblem problem = task.built.problem;
  const Graph& graph = task.profiles[part].stage->graph;
  for (const auto& [value, index] : task.built.parts[part].stored) {
    if (!graph.is_constant(value)) continue;
    const PlanProblem::Stored& stored = task.built.stored[index];
    const auto place = std::ranges::find(stored.specs, plan.stored.at(value));
    if (place == stored.specs.end()) return std::nullopt;
    fix(problem.nodes[stored.node], static_cast<int>(place - stored.specs.begin()));
  }
  return problem;
}

/// The plan of one part by itself, within so many seconds; nullopt where none is found.
std::optional<plan::Plan> plan_alone(const PlanTask& task, std::size_t part, double seconds);

/// With fixed weights, parts have little to do with each other: their plans are found soon.
void consider_weights_of_each(const PlanTask& task, Incumbent& incumbent) {
  const std::size_t count = task.profiles.size();
  incumbent.starts.clear();
  for (std::size_t part = 0; part < count; ++part) {
    const double share = task.seconds_left() / static_cast<double>(2 * (count - part));
    if (share <= 0 || was_interrupted()) return;
    const auto alone = plan_alone(task, part, share);
    const auto problem = alone ? with_weights_of(task, *alone, part) : std::nullopt;
    if (!problem) continue;
    const Solution solution = solve_exactly(task, *problem, incumbent);
    if (!solution.choice.empty()) consider(task, solution.choice, incumbent);
  }
}

JointPlan solve(PlanTask task) {
  const std::vector<int> seeds =
      task.options.method == SearchMethod::propagation ? seeds_of(task) : std::vector<int>{};
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
  consider_recursive(task, best);
  if (best.choice.empty()) consider_fair_plan(task, best);
  if (best.choice.empty()) {
    if (!least) least = find_least_memory(task, best);
    problem.usage_limits = task.built.problem.usage_limits;
    require_to_fit(task, *least);
    consider(task, least->choice, best);
  }
  const double gap = static_cast<double>(best.cost - lower_bound);
  if (task.is_exact() && task.profiles.size() > 1 &&
      gap > small_gap * static_cast<double>(best.cost))
    consider_weights_of_each(task, best);
  // Shards may need less than the sums: then the bound under limits is not one for this plan.
  if (best.cost < lower_bound) lower_bound = 0;
  lower_bound = std::max({lower_bound, bound_without_limits, bound_of_operators(task)});
  // The best plan may be from an attempt before the last.
  if (assignment::within_limits(problem, best.choice)) task.built.problem = std::move(problem);
  return answer_of(std::move(task), std::move(best), lower_bound);
}

/// GLPK is to have the whole problem.
bool is_for_glpk(const SearchOptions& options) {
  return options.method == SearchMethod::ilp && !options.presolve;
}

bool is_exact(const SearchOptions& options) {
  return options.method == SearchMethod::ilp && options.presolve;
}

/// Nothing where the problem is not as large as that.
SearchAtRest search_large_at_rest(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                                  const SearchOptions& options, const JointPlan* coarser) {
  if (!is_exact(options) || !options.run_bytes || !options.pins.empty() || profiles.size() > 1)
    return {};
  PlanTask task{.stopwatch = stopwatch,
                .profiles = profiles,
                .options = options,
                .coarser = coarser,
                .built = build_plan_problem(profiles, options, CountedMemory::at_rest)};
  return is_recursive_quick(task) ? SearchAtRest{} : search_at_rest(std::move(task));
}

/// The plan with this bound, too.
JointPlan with_bound(double lower_bound_seconds, JointPlan plan) {
  const double cost = plan.predicted.cost_seconds;
  SearchReport& report = plan.report;
  report.lower_bound_seconds =
      std::min(cost, std::max(report.lower_bound_seconds, lower_bound_seconds));
  report.proven_optimal = report.lower_bound_seconds == cost;
  return plan;
}

bool is_good_enough(const JointPlan& found) {
  return found.predicted.cost_seconds <= (1 + small_gap) * found.report.lower_bound_seconds;
}

/// The plan found by descent with what solving the problem of all strategies, which is small enough
/// for that, makes of it.
JointPlan descend_and_solve(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                            const SearchOptions& options, const JointPlan* coarser) {
  std::optional<JointPlan> found;
  try {
    found = search_by_descent(stopwatch, profiles,
                              within_share(options, stopwatch, share_of_descent), coarser);
    if (is_good_enough(*found)) return *std::move(found);
  } catch (const NothingFits&) {  // what would fit is found out below
  }
  SearchOptions own = options;
  own.warns = options.warns && !found;
  try {
    JointPlan whole = search_whole_problem(stopwatch, profiles, own, found ? &*found : coarser);
    if (!found) return whole;
    if (whole.predicted.cost_seconds <= found->predicted.cost_seconds)
      return with_bound(found->report.lower_bound_seconds, std::move(whole));
    return with_bound(whole.report.lower_bound_seconds, *std::move(found));
  } catch (const NothingFits&) {
    if (!found) throw;
    return *std::move(found);
  }
}

std::optional<plan::Plan> plan_alone(const PlanTask& task, std::size_t part, double seconds) {
  SearchOptions options = task.options;
  options.pins = pins_by_profile(task.options.pins, task.profiles)[part];
  options.time_limit_seconds = seconds;
  options.warns = false;
  const std::span<const Profile> profile = task.profiles.subspan(part, 1);
  try {
    JointPlan found = solve(
        {.profiles = profile, .options = options, .built = build_plan_problem(profile, options)});
    return std::move(found.plans.front());
  } catch (const NothingFits&) {
    return std::nullopt;
  }
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
  const Profile only{.stage = &stage, .cost = &cost};
  return only_plan(search_plan({&only, 1}, options));
}

SolvedPlan only_plan(JointPlan found) {
  return {std::move(found.plans.front()), std::move(found.report), std::move(found.built),
          std::move(found.choice)};
}

JointPlan search_whole_problem(const Stopwatch& stopwatch, std::span<const Profile> profiles,
                               const SearchOptions& options, const JointPlan* coarser) {
  SearchAtRest at_rest;
  try {
    at_rest = search_large_at_rest(stopwatch, profiles, options, coarser);
    if (at_rest.is_answer) {
      if (options.warns) warn_of_missing_rules(at_rest.plan->built.operators_without_rule);
      return std::move(*at_rest.plan);
    }
    return solve({.stopwatch = stopwatch,
                  .profiles = profiles,
                  .options = options,
                  .coarser = at_rest.plan ? &*at_rest.plan : coarser,
                  .built = build_plan_problem(profiles, options)});
  } catch (const NothingFits& error) {
    if (at_rest.plan) return std::move(*at_rest.plan);  // its shards fit, whatever sums say
    if (profiles.front().cost->device().collectives == nullptr) throw;
    const std::string more = what_stands_against(profiles, build_plan_problem(profiles, options));
    throw NothingFits(error.what() + more, error.least_bytes, error.is_proven);
  }
}

JointPlan with_all_strategies(std::span<const Profile> profiles, const SearchOptions& options,
                              JointPlan plan) {
  const auto runs = runs_between(plan.plans.front().mesh, profiles.front().cost->mesh());
  if (!runs || !can_descend(profiles, options) || is_too_large_to_build(profiles, options))
    return plan;
  PlanProblem all = build_plan_problem(profiles, options);
  auto choice = refined(plan.built, plan.choice, *runs, all);
  if (!choice) return plan;
  plan.built = std::move(all);
  plan.choice = *std::move(choice);
  return plan;
}

JointPlan search_plan(std::span<const Profile> profiles, const SearchOptions& options,
                      const JointPlan* coarser) {
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best plan so far will do
  const Stopwatch stopwatch;
  if (!is_for_glpk(options) && is_too_large_to_build(profiles, options))
    return search_by_descent(stopwatch, profiles, options, coarser);
  if (is_exact(options) && can_descend(profiles, options))
    return descend_and_solve(stopwatch, profiles, options, coarser);
  return search_whole_problem(stopwatch, profiles, options, coarser);
}

}  // namespace autopar::search
