// Whether a plan fits is decided by the peak that is predicted for its shards, which the assignment
// problem's sums only approximate. Hence a search of several solves:
// 1. without limits: where the cheapest plan of all fits, it is found soon;
// 2. under the limits, which are lowered by the excess as long as the shards exceed them;
// 3. where nothing fits so far, under a fair share of the weights, and then for the least memory,
//    which shows whether anything fits at all;
// 4. of several profiles whose plan is far from proven: with weights as each wants them by itself.

#include "search/search_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "assignment/elimination/elimination.h"
#include "assignment/least_peak.h"
#include "assignment/presolve/presolve.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "program/pipeline_program.h"
#include "search/coarse_plan.h"
#include "search/missing_collectives.h"
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
/// The part of the time for a first solve without limits.
constexpr double share_without_limits = 0.15;
/// The part of the time left for a solve under limits.
constexpr double share_of_solve = 0.85;
/// What the recursive search takes for a cell of an edge's table, seen on an ordinary core.
constexpr double recursive_seconds_a_cell = 4e-8;
/// The part of the time that it may take where the search is exact.
constexpr double share_of_recursive = 0.05;
/// The part of the time to see whether limits bind at all, where that is too slow.
constexpr double share_of_one_axis = 0.05;
/// The part of the time for plans on coarser meshes then.
constexpr double share_of_coarser = 0.2;
/// The part of the time left for the least peak.
constexpr double share_of_least_peak = 0.7;
/// The least time for it: without it there is no plan at all. A small model needs far less.
constexpr double least_seconds_for_a_plan = 10;
/// Sums above the least, as a part of it, whose cheapest plans are tried too.
constexpr double slacks[] = {0.0, 0.02, 0.05};
/// A plan of several profiles that is proven to this part is not held against those of each.
constexpr double small_gap = 1e-3;
/// --memory device is told of where it saves so much, as a part of the plan's cost.
constexpr double worth_telling = 0.02;
/// Where the choices that are left make larger tables, a plan is not carried over.
constexpr double most_cells_of_a_table = 4e6;

/// What one search of a plan is for. All of it is known before the first solve.
struct PlanTask {
  Stopwatch stopwatch{};  ///< from before the problem was built
  std::span<const Profile> profiles;
  const SearchOptions& options;
  const JointPlan* coarser = nullptr;  ///< a plan on a coarser mesh, if there is one
  PlanProblem built;
  const double build_seconds = stopwatch.seconds();

  const sharding::DeviceMesh& mesh() const { return profiles.front().cost->mesh(); }

  bool is_exact() const { return options.method == SearchMethod::ilp; }
  double seconds_left() const { return options.time_limit_seconds - stopwatch.seconds(); }
  /// Bytes of weights and activations together.
  std::int64_t limit() const { return built.problem.usage_limits.back(); }
};

/// The cheapest plan so far whose shards fit, and what later solves may use of earlier ones.
struct Incumbent {
  std::vector<int> choice;  ///< empty where there is none
  Cost cost = assignment::impossible;
  std::vector<plan::Plan> plans;         ///< by profile
  std::vector<std::vector<int>> starts;  ///< choices that the next exact solve begins with
  double glpk_seconds = 0;               ///< of all solves
  double seconds_to_predict = 0;         ///< what the longest prediction of shards has taken
  std::vector<int> without_limits;       ///< the cheapest choice of all, where it is not fair
};

/// The largest sum of what is alive, as the search counts it.
std::int64_t summed_peak(const PlanTask& task, const std::vector<int>& choice) {
  return std::ranges::max(assignment::usage_over_time(task.built.problem, choice));
}

/// The same while one part runs, and at rest.
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
  const auto& [stage, cost, weight, name] = task.profiles[part];
  return options.rank0_bytes + weight_bytes_of_others(task.built, choice, part) +
         program::predict_peak_bytes(*stage, plan, cost->device(), options.microbatches,
                                     options.run_bytes);
}

/// A choice's plans with their peaks alone predicted.
std::vector<plan::Plan> plans_of(const PlanTask& task, const std::vector<int>& choice) {
  std::vector<plan::Plan> plans;
  for (std::size_t p = 0; p < task.profiles.size(); ++p) {
    plan::Plan& plan = plans.emplace_back(decode(task.built, choice, *task.profiles[p].cost, p));
    plan.predicted.peak_bytes = task.options.run_bytes ? predicted_peak(task, choice, plan, p)
                                                       : summed_peak(task, choice, p);
  }
  return plans;
}

/// Bytes that the profile needs that needs most.
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

std::vector<plan::Plan> timed_plans_of(const PlanTask& task, const std::vector<int>& choice,
                                       Incumbent& incumbent) {
  const Stopwatch stopwatch;
  std::vector<plan::Plan> plans = plans_of(task, choice);
  incumbent.seconds_to_predict = std::max(incumbent.seconds_to_predict, stopwatch.seconds());
  return plans;
}

/// Takes the fair choice where it is cheaper than the incumbent and its shards fit. Returns the
/// bytes by which its peak exceeds the limit, negative where it is below.
std::int64_t consider(const PlanTask& task, const std::vector<int>& choice, Incumbent& incumbent) {
  std::vector<plan::Plan> plans = timed_plans_of(task, choice, incumbent);
  const std::int64_t excess = peak_of(plans) - task.limit();
  const Cost cost = assignment::cost_of(task.built.problem, choice);
  if (excess <= 0 && cost < incumbent.cost && is_fair(task, choice)) {
    incumbent.choice = choice;
    incumbent.cost = cost;
    incumbent.plans = std::move(plans);
  }
  return excess;
}

/// Within a share of the time left, without that for predicting what its plan needs; at least
/// `least_seconds`.
Solution solve_exactly(const PlanTask& task, const AssignmentProblem& problem, Incumbent& incumbent,
                       double share = share_of_solve, double least_seconds = 0) {
  const double seconds_left = task.seconds_left() - incumbent.seconds_to_predict;
  Solution solution = assignment::solve(
      problem, {.time_limit_seconds = std::max(least_seconds, share * seconds_left),
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
  for (std::size_t i = 0; i < to.stored.size(); ++i)
    fix(problem.nodes[to.stored[i].node], choice[from.stored[i].node]);
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
    return choice.empty() ? unknown_bytes : peak_of(plans_of(task, choice));
  };
  auto& limits = built.problem.usage_limits;
  incumbent.starts = {least.choice};
  double least_seconds = least_seconds_for_a_plan;
  for (const double slack : slacks) {
    const auto limit = static_cast<std::int64_t>((1 + slack) * static_cast<double>(least.peak));
    std::fill(limits.begin() + first, limits.end(), limit);
    const Solution solution = solve_exactly(task, built.problem, incumbent, share_of_solve,
                                            std::exchange(least_seconds, 0));
    if (solution.choice.empty()) continue;
    std::vector<int> cheapest = carried_over(built, solution.choice, task);
    if (packed(cheapest) <= packed(best)) best = std::move(cheapest);
  }
  return best;
}

/// Throws NothingFits, which names the least memory known, where even that choice does not fit.
void require_to_fit(const PlanTask& task, const LeastPeak& least) {
  const std::int64_t peak = peak_of(plans_of(task, least.choice));
  if (peak <= task.limit()) return;
  throw NothingFits(
      fmt::format("nothing fits a memory limit of {} a device: the smallest known to do is {}: "
                  "raise --memory or add devices",
                  in_mebibytes(task.limit()), in_mebibytes(peak)),
      peak, least.lower_bound > task.limit());
}

/// The choice that needs least memory, whatever it costs; weights stay within a fair share where
/// that is asked for. Throws NothingFits where the time or an interruption let none be found.
LeastPeak find_least_memory(const PlanTask& task, Incumbent& incumbent) {
  // Which sums are worth counting depends on the limit. Here it is decided for one and the same,
  // whatever was asked for, so that the least that is named is found again when it is asked for.
  SearchOptions options = task.options;
  if (options.memory.kind == MemoryPolicy::Kind::bytes)
    options.memory.bytes = bytes_on_one_device(task.profiles) / task.mesh().num_devices();
  const int first = options.memory.kind == MemoryPolicy::Kind::fair ? 1 : 0;
  PlanProblem built = build_plan_problem(task.profiles, options);
  std::optional<LeastPeak> least;
  std::optional<LeastPeak> beyond_share;  // sought where weights alone are more than a fair share
  {
    // A first Ctrl-C lets it end, since without it there is no plan at all; a second does not.
    const InterruptionReprieve reprieve;
    const double seconds =
        std::max(least_seconds_for_a_plan, share_of_least_peak * task.seconds_left());
    const auto least_from = [&](int row) {
      return assignment::find_least_peak(
          built.problem, row, static_cast<int>(built.problem.usage_limits.size()),
          {.time_limit_seconds = seconds, .threads = task.options.threads});
    };
    least = least_from(first);
    if (!least && first > 0) beyond_share = least_from(0);
  }
  if (beyond_share) {
    beyond_share->choice = carried_over(built, beyond_share->choice, task);
    if (!beyond_share->choice.empty()) {
      require_to_fit(task, *beyond_share);
      throw NothingFits(
          fmt::format("nothing keeps each device's weights within a fair share, {}, as far as the "
                      "search let see: give --memory device",
                      in_mebibytes(task.built.problem.usage_limits.front())),
          unknown_bytes, false);
    }
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

Cost bound_of(const Solution& solution) {
  return solution.status == Status::infeasible ? 0 : solution.lower_bound;
}

/// In parts of the cost; 0 where nothing was found.
double gap_of(const Solution& solution) {
  if (solution.choice.empty()) return 0;
  return static_cast<double>(solution.cost - solution.lower_bound) /
         static_cast<double>(std::max<Cost>(solution.cost, 1));
}

/// The first solution, and what is learnt on the way to it.
struct FirstSolution {
  Solution solution;
  Cost bound_without_limits = 0;
  std::optional<LeastPeak> least{};  ///< where it was needed
};

/// About what choose_recursively takes.
double seconds_of_recursive(const PlanTask& task) {
  double cells = 0;
  for (const auto& edge : task.built.problem.edges) cells += static_cast<double>(edge.costs.size());
  return recursive_seconds_a_cell * cells;
}

bool is_recursive_quick(const PlanTask& task) {
  return seconds_of_recursive(task) < share_of_recursive * task.options.time_limit_seconds;
}

/// The exact search goes on from it.
void consider_recursive_plan(const PlanTask& task, Incumbent& incumbent) {
  auto quick = choose_recursively(task.built, task.built.problem, task.mesh());
  if (!quick) return;
  consider(task, *quick, incumbent);
  incumbent.starts.push_back(std::move(*quick));
}

/// The same plan on the task's mesh; nullopt where that does not come from its axes.
std::optional<std::vector<int>> refined_on(const JointPlan& coarser, const PlanTask& task) {
  const auto runs = runs_between(coarser.plans.front().mesh, task.mesh());
  return runs ? refined(coarser.built, coarser.choice, *runs, task.built) : std::nullopt;
}

/// The exact search goes on from a plan on coarser meshes. Pins are for this mesh alone.
void start_from_coarser(const PlanTask& task, Incumbent& incumbent) {
  if (!task.options.pins.empty()) return;
  auto start = task.coarser != nullptr
                   ? refined_on(*task.coarser, task)
                   : choose_from_coarser(task.built, task.profiles, task.options,
                                         share_of_coarser * task.options.time_limit_seconds);
  if (start) incumbent.starts.push_back(std::move(*start));
}

/// Where even the plan of the least memory does not fit, throws NothingFits.
FirstSolution solve_under_limits(const PlanTask& task, const Solution& cheapest,
                                 Incumbent& incumbent) {
  const AssignmentProblem& problem = task.built.problem;
  if (is_recursive_quick(task)) consider_recursive_plan(task, incumbent);
  if (task.coarser != nullptr || !is_recursive_quick(task)) start_from_coarser(task, incumbent);
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

/// Where a problem is so large that a search without limits would take long, and its plan would
/// exceed them, it is left out.
bool is_worth_solving_without_limits(const PlanTask& task) {
  return is_recursive_quick(task) || !task.options.pins.empty() ||
         !limits_bind_on_one_axis(task.built, task.profiles, task.options,
                                  share_of_one_axis * task.options.time_limit_seconds);
}

FirstSolution solve_from_no_limits(const PlanTask& task, Incumbent& incumbent) {
  if (!is_worth_solving_without_limits(task)) return solve_under_limits(task, {}, incumbent);
  AssignmentProblem unlimited = task.built.problem;
  unlimited.usage_limits.clear();
  Solution cheapest = solve_exactly(task, unlimited, incumbent, share_without_limits);
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
  if (gap_of(cheapest) > small_gap && task.seconds_left() > 0) {
    const Cost bound = cheapest.lower_bound;
    cheapest = solve_exactly(task, unlimited, incumbent, 1);
    cheapest.lower_bound = std::max(cheapest.lower_bound, bound);
  }
  return {cheapest, bound_of(cheapest)};
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
  const PlanProblem built = build_plan_problem(task.profiles, fair);
  incumbent.starts.clear();
  const Solution solution = solve_exactly(task, built.problem, incumbent);
  if (solution.choice.empty()) return;
  const std::vector<int> choice = carried_over(built, solution.choice, task);
  if (!choice.empty()) consider(task, choice, incumbent);
}

/// Under a fair limit a plan without one was found, too: its seconds where it saves enough to be
/// worth telling, fits the device, and there is time to see whether it does; else 0.
double seconds_with_device_memory(const PlanTask& task, Incumbent& best) {
  if (best.without_limits.empty() || task.seconds_left() < best.seconds_to_predict) return 0;
  const double faster = in_seconds(assignment::cost_of(task.built.problem, best.without_limits));
  const bool is_worth_telling = faster < (1 - worth_telling) * in_seconds(best.cost);
  if (!is_worth_telling) return 0;
  return peak_of(timed_plans_of(task, best.without_limits, best)) <= task.limit() ? faster : 0;
}

SearchReport report_of(const PlanTask& task, Incumbent& best, Cost lower_bound) {
  const double device_memory_seconds = seconds_with_device_memory(task, best);  // takes time itself
  return {.method = task.options.method,
          .search_seconds = task.stopwatch.seconds(),
          .build_seconds = task.build_seconds,
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
  lower_bound = std::max(lower_bound, bound_without_limits);
  const plan::Prediction predicted = predict(task, best);
  SearchReport report = report_of(task, best, lower_bound);
  // The best plan may be from an attempt before the last.
  if (assignment::within_limits(problem, best.choice)) task.built.problem = std::move(problem);
  return {std::move(best.plans), predicted, std::move(report), std::move(task.built),
          std::move(best.choice)};
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

JointPlan search_plan(std::span<const Profile> profiles, const SearchOptions& options,
                      const JointPlan* coarser) {
  const InterruptionGuard guard{SIGINT};  // Ctrl-C: the best plan so far will do
  const Stopwatch stopwatch;
  try {
    return solve({.stopwatch = stopwatch,
                  .profiles = profiles,
                  .options = options,
                  .coarser = coarser,
                  .built = build_plan_problem(profiles, options)});
  } catch (const NothingFits& error) {
    if (profiles.front().cost->device().collectives == nullptr) throw;
    const std::string more = what_stands_against(profiles, build_plan_problem(profiles, options));
    throw NothingFits(error.what() + more, error.least_bytes, error.is_proven);
  }
}

}  // namespace autopar::search
