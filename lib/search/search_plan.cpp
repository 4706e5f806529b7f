#include "search/search_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "assignment/elimination/elimination.h"
#include "assignment/least_peak.h"
#include "assignment/presolve/presolve.h"
#include "base/error.h"
#include "base/interruption.h"
#include "base/stopwatch.h"
#include "program/pipeline_program.h"
#include "search/operator_bound.h"
#include "search/plan_builder.h"
#include "search/propagation.h"
#include "search/recursive.h"
#include "search/solved_plan.h"

namespace autopar::search {

namespace {

using graph::Graph;

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

/// Seconds that are not operators': what the choice costs beyond them.
double communication_seconds(const Graph& graph, const cost::CostModel& cost,
                             const plan::Plan& plan, double total) {
  double computation = 0;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    const auto rule = sharding::sharding_rule(graph, node);
    computation += cost.operator_seconds(
        graph, node, rule ? *rule : sharding::replicated_rule(graph, node), plan.operators[id]);
  }
  return std::max(0.0, total - computation);
}

/// Where what is left to choose hangs together more, a plan is not carried over.
constexpr double most_cells_of_a_table = 4e6;

std::string in_mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB ({} bytes)", static_cast<double>(bytes) / 1048576.0, bytes);
}

/// The cheapest choice that stands for the same plan in a problem that counts memory otherwise;
/// empty where there is none.
std::vector<int> moved(const PlanProblem& from, const std::vector<int>& choice,
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
    fix(static_cast<std::size_t>(stored.node),
        choice[static_cast<std::size_t>(from.stored.at(value).node)]);
  }
  const auto reduced = presolve(std::move(problem));
  if (!reduced) return {};
  const auto rest = choose_by_elimination(reduced->core, most_cells_of_a_table);
  return rest ? reduced->original(*rest) : std::vector<int>{};
}

class PlanSearch {
 public:
  PlanSearch(const graph::StageGraph& stage, const cost::CostModel& cost,
             const SearchOptions& options)
      : stage_(stage),
        graph_(stage.graph),
        cost_(cost),
        options_(options),
        built_(build_plan_problem(graph_, cost, options, stage.received)),
        problem_(built_.problem),
        limit_(built_.problem.usage_limits.back()),
        seeds_(seeds()) {
    if (options.warns) warn_of_missing_rules(built_.operators_without_rule);
  }

  SolvedPlan run_to_solved_plan() && {
    plan::Plan plan = run();
    // The best may be from an attempt before the last.
    if (assignment::within_limits(problem_, best_)) built_.problem = std::move(problem_);
    return {std::move(plan), std::move(built_), std::move(best_)};
  }

  plan::Plan run() {
    assignment::Solution solution = solve();
    const assignment::Cost lower_bound = is_exact() ? bound_of(solution) : bound_of_quick_method();
    for (int attempt = 0; attempt < most_attempts && !solution.choice.empty(); ++attempt) {
      const std::int64_t excess = consider(solution.choice);
      if (excess <= 0) break;
      const std::int64_t lower = std::max<std::int64_t>(0, peak_of(solution.choice) - excess);
      for (std::size_t t = 1; t < problem_.usage_limits.size(); ++t) {
        problem_.usage_limits[t] = lower;
      }
      starts_.push_back(std::move(solution.choice));
      solution = solve(problem_);
    }
    if (best_.empty()) consider_fair_plan();
    if (best_.empty()) {
      if (!least_) least_ = least_peak();
      problem_.usage_limits = built_.problem.usage_limits;
      require_least_to_fit();
      consider(least_->choice);
    }
    return described(lower_bound);
  }

 private:
  static constexpr int most_attempts = 8;
  /// Of work; then a plan is good enough that is proven to a thousandth.
  static constexpr double patience_seconds = 3;
  /// Of the time left, for a search that may have to be repeated, and for the least peak.
  static constexpr double share_of_search = 0.7;
  static constexpr double share_of_least_peak = 0.7;
  /// Work ends the search for the least peak sooner, unless the machine is busy or the model large.
  static constexpr double least_seconds_for_a_plan = 10;

  /// Without limits first: where the cheapest plan of all fits, it is soon found. Where no plan
  /// that fits is found, the one that needs least memory shows whether there is any.
  assignment::Solution solve() {
    if (!is_exact() || !options_.presolve) return solve(problem_);
    auto limits = std::exchange(problem_.usage_limits, {});
    assignment::Solution cheapest = solve_exactly(problem_);
    bound_without_limits_ = bound_of(cheapest);
    problem_.usage_limits = std::move(limits);
    // Without limits what costs nothing may use more than it has to: the shards themselves tell.
    if (cheapest.status == assignment::Status::infeasible && !options_.pins.empty())
      throw NothingFits(
          "no plan has all that --strategy pins: some of its entries contradict "
          "others, or --loop; leave out one after the other to see which",
          std::numeric_limits<std::int64_t>::max(), true);
    if (cheapest.status == assignment::Status::infeasible) return cheapest;
    if (!cheapest.choice.empty()) {
      consider(cheapest.choice);
      starts_.push_back(cheapest.choice);
    }
    if (!best_.empty() && (cheapest.status == assignment::Status::optimal || seconds_left() > 0))
      return cheapest;
    if (auto quick = solve_quickly(problem_, SearchMethod::recursive).choice; !quick.empty()) {
      consider(quick);
      starts_.push_back(std::move(quick));
    }
    assignment::Solution solution = solve_exactly(problem_);
    if (solution.choice.empty() && best_.empty()) {
      least_ = least_peak();
      require_least_to_fit();
      if (!assignment::within_limits(problem_, least_->choice)) return solution;
      starts_ = {least_->choice};
      solution = solve(problem_);
    }
    if (solution.status != assignment::Status::infeasible) {
      solution.lower_bound = std::max(solution.lower_bound, cheapest.lower_bound);
    }
    return solution;
  }

  /// Keeps it if it is the cheapest whose shards fit. Returns how far its peak is over the limit.
  std::int64_t consider(const std::vector<int>& choice) {
    plan::Plan plan = plan_of(choice);
    const std::int64_t excess = plan.summary.peak_bytes - limit_;
    const assignment::Cost cost = assignment::cost_of(built_.problem, choice);
    const std::int64_t fair_share = built_.problem.usage_limits.front();
    const bool is_fair =
        fair_share < 0 || assignment::usage_over_time(built_.problem, choice).front() <= fair_share;
    if (excess <= 0 && is_fair && cost < best_cost_) {
      best_ = choice;
      best_cost_ = cost;
      plan_ = std::move(plan);
    }
    return excess;
  }

  /// Where shards fuse less than the whole model does, the sums say too little: what a fair share
  /// of the weights leads to may fit where nothing else was found.
  void consider_fair_plan() {
    if (!is_exact() || options_.memory.kind != MemoryPolicy::Kind::bytes) return;
    SearchOptions fair = options_;
    fair.memory.kind = MemoryPolicy::Kind::fair;
    const PlanProblem built = build_plan_problem(graph_, cost_, fair, stage_.received);
    starts_.clear();
    const assignment::Solution solution = solve_exactly(built.problem);
    if (solution.choice.empty()) return;
    const std::vector<int> choice = moved(built, solution.choice, built_);
    if (!choice.empty()) consider(choice);
  }

  /// Throws where even that does not fit.
  void require_least_to_fit() const {
    const plan::Plan plan = plan_of(least_->choice);
    if (plan.summary.peak_bytes > limit_) {
      throw NothingFits(
          fmt::format("nothing fits a memory limit of {} a device: the smallest known to do is {}: "
                      "raise --memory or add devices",
                      in_mebibytes(limit_), in_mebibytes(plan.summary.peak_bytes)),
          plan.summary.peak_bytes, least_->lower_bound > limit_);
    }
  }

  assignment::Solution solve(const assignment::AssignmentProblem& problem) {
    return is_exact() ? solve_exactly(problem) : solve_quickly(problem, options_.method);
  }

  bool is_exact() const { return options_.method == SearchMethod::ilp; }

  double seconds_left() const { return options_.time_limit_seconds - stopwatch_.seconds(); }

  /// Where limits bind, some time is left for what may have to follow.
  assignment::Solution solve_exactly(const assignment::AssignmentProblem& problem,
                                     double least_seconds = 0) {
    const double share = problem.usage_limits.empty() ? 1 : share_of_search;
    assignment::Solution solution = assignment::solve(
        problem, {.time_limit_seconds = std::max(least_seconds, share * seconds_left()),
                  .patience_seconds = patience_seconds,
                  .presolve = options_.presolve,
                  .starts = starts_,
                  .threads = options_.threads});
    glpk_seconds_ += solution.glpk_seconds;
    return solution;
  }

  assignment::Solution solve_quickly(const assignment::AssignmentProblem& problem,
                                     SearchMethod method) const {
    auto choice = method == SearchMethod::propagation
                      ? choose_by_propagation(built_, problem, cost_.mesh(), seeds_)
                      : choose_recursively(built_, problem, cost_.mesh());
    if (!choice) return {};
    const assignment::Cost cost = assignment::cost_of(problem, *choice);
    return {.status = assignment::Status::feasible, .choice = std::move(*choice), .cost = cost};
  }

  /// The operators that the user has pinned, or the heaviest one.
  std::vector<graph::NodeId> seeds() const {
    if (options_.method != SearchMethod::propagation) return {};
    const Pins pins(options_.pins, graph_);
    std::vector<graph::NodeId> pinned;
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      if (pins.is_pinned(graph_.nodes[id].name)) pinned.push_back(static_cast<graph::NodeId>(id));
    }
    if (!pinned.empty() || graph_.nodes.empty()) return pinned;
    const graph::NodeId heaviest = heaviest_first(built_).front();
    spdlog::info("--strategy pins no operator: propagating from the heaviest, '{}'",
                 graph_.node(heaviest).name);
    return {heaviest};
  }

  assignment::Cost bound_of_quick_method() {
    assignment::Cost least = 0;
    for (const auto& operators : built_.operators) least += std::ranges::min(operators->costs);
    return options_.bound ? std::max(least, bound_of(solve_exactly(built_.problem))) : least;
  }

  /// What holds with a lower limit need not hold with the one that was asked for.
  static assignment::Cost bound_of(const assignment::Solution& solution) {
    return solution.status == assignment::Status::infeasible ? 0 : solution.lower_bound;
  }

  /// The choice that needs least memory, whatever it costs; weights stay within a fair share. What
  /// is worth counting is decided as for one and the same limit, whatever was asked for: so what is
  /// named as the least is found again where it is asked for.
  assignment::LeastPeak least_peak() {
    const bool is_fair = options_.memory.kind == MemoryPolicy::Kind::fair;
    SearchOptions options = options_;
    if (options.memory.kind == MemoryPolicy::Kind::bytes) {
      options.memory.bytes = bytes_on_one_device(graph_) / cost_.mesh().num_devices();
    }
    PlanProblem built = build_plan_problem(graph_, cost_, options, stage_.received);
    auto least = least_peak_of(built.problem, is_fair ? 1 : 0);
    if (least) least->choice = least_to_pack(std::move(built), *least, is_fair ? 1 : 0);
    if (!least || least->choice.empty()) {
      const char* const end = was_interrupted() ? "interruption" : "time limit";
      throw NothingFits(
          fmt::format("nothing fits a memory limit of {} a device, as far as the {} let see: raise "
                      "--memory or give the search more time",
                      in_mebibytes(limit_), end),
          std::numeric_limits<std::int64_t>::max(), false);
    }
    return *least;
  }

  /// Without it there is no plan at all, so a first Ctrl-C lets it end; a second one does not.
  std::optional<assignment::LeastPeak> least_peak_of(const assignment::AssignmentProblem& problem,
                                                     int first) const {
    const InterruptionReprieve reprieve;
    return assignment::find_least_peak(
        problem, first, static_cast<int>(problem.usage_limits.size()),
        {.time_limit_seconds =
             std::max(least_seconds_for_a_plan, share_of_least_peak * seconds_left()),
         .threads = options_.threads});
  }

  /// Among choices of the least peak, as the search sums it, or a little more, the one whose
  /// shards need least: the cheapest ones move less, and how shards are packed differs.
  std::vector<int> least_to_pack(PlanProblem built, const assignment::LeastPeak& least, int first) {
    std::vector<int> best = moved(built, least.choice, built_);
    const auto packed = [&](const auto& choice) {
      return choice.empty() ? std::numeric_limits<std::int64_t>::max()
                            : plan_of(choice).summary.peak_bytes;
    };
    auto& limits = built.problem.usage_limits;
    starts_ = {least.choice};
    double least_seconds = least_seconds_for_a_plan;
    for (const double slack : {0.0, 0.02, 0.05}) {
      const auto limit = static_cast<std::int64_t>((1 + slack) * static_cast<double>(least.peak));
      std::fill(limits.begin() + first, limits.end(), limit);
      const assignment::Solution solution =
          solve_exactly(built.problem, std::exchange(least_seconds, 0));
      if (solution.choice.empty()) continue;
      std::vector<int> cheapest = moved(built, solution.choice, built_);
      if (packed(cheapest) <= packed(best)) best = std::move(cheapest);
    }
    return best;
  }

  /// As the search sums it.
  std::int64_t peak_of(const std::vector<int>& choice) const {
    return std::ranges::max(assignment::usage_over_time(built_.problem, choice));
  }

  /// With its memory, the one thing that the loop asks for.
  plan::Plan plan_of(const std::vector<int>& choice) const {
    plan::Plan plan = decode(built_, choice, cost_);
    plan.summary.peak_bytes =
        options_.run_bytes ? options_.rank0_bytes + program::predict_peak_bytes(
                                                        stage_, plan, cost_.device(),
                                                        options_.microbatches, options_.run_bytes)
                           : peak_of(choice);
    return plan;
  }

  plan::Plan described(assignment::Cost lower_bound) {
    // Shards may need less than the search sums; its bound is not for a plan that is over the sums.
    if (best_cost_ < lower_bound) lower_bound = 0;
    lower_bound = std::max(lower_bound, bound_without_limits_);
    plan::PlanSummary& summary = plan_.summary;
    summary.search = name_of(options_.method);
    summary.bound_is_searched = is_exact() || options_.bound;
    summary.cost_seconds = static_cast<double>(best_cost_) * seconds_per_cost;
    summary.lower_bound_seconds =
        std::max(0.0, static_cast<double>(lower_bound) * seconds_per_cost);
    summary.proven_optimal = best_cost_ == lower_bound;
    summary.communication_seconds =
        communication_seconds(graph_, cost_, plan_, summary.cost_seconds);
    summary.weight_bytes = assignment::usage_over_time(built_.problem, best_).front();
    summary.one_device_seconds = least_seconds_on(1, graph_, cost_.device());
    summary.one_device_bytes = bytes_on_one_device(graph_);
    summary.glpk_seconds = glpk_seconds_;
    summary.search_seconds = stopwatch_.seconds();
    return std::move(plan_);
  }

  const InterruptionGuard guard_{SIGINT};  ///< Ctrl-C: the best plan so far will do
  const Stopwatch stopwatch_;
  const graph::StageGraph& stage_;
  const Graph& graph_;
  const cost::CostModel& cost_;
  const SearchOptions& options_;
  PlanProblem built_;
  assignment::AssignmentProblem problem_;  ///< with the limits of the last attempt
  std::vector<int> best_;                  ///< the cheapest choice whose shards fit
  assignment::Cost best_cost_ = assignment::impossible;
  assignment::Cost bound_without_limits_ = 0;
  plan::Plan plan_;                             ///< the best choice's
  std::vector<std::vector<int>> starts_;        ///< what the next search begins with
  std::optional<assignment::LeastPeak> least_;  ///< once it was looked for
  const std::int64_t limit_;                    ///< of weights and activations together
  const std::vector<graph::NodeId> seeds_;      ///< of propagation
  double glpk_seconds_ = 0;
};

}  // namespace

plan::Plan decode(const PlanProblem& built, const std::vector<int>& choice,
                  const cost::CostModel& cost) {
  plan::Plan plan;
  plan.mesh = cost.mesh();
  plan.device = cost.device().name;
  const auto chosen = [&](std::size_t node) { return static_cast<std::size_t>(choice[node]); };
  for (std::size_t id = 0; id < built.operators.size(); ++id) {
    plan.operators.push_back(built.operators[id]->choices[chosen(id)]);
  }
  for (const auto& [value, stored] : built.stored) {
    plan.stored.emplace(value, stored.specs[chosen(static_cast<std::size_t>(stored.node))]);
  }
  return plan;
}

SolvedPlan search_solved_plan(const Graph& graph, const cost::CostModel& cost,
                              const SearchOptions& options) {
  return PlanSearch(graph::whole_stage(graph), cost, options).run_to_solved_plan();
}

std::string_view name_of(SearchMethod method) {
  switch (method) {
    case SearchMethod::ilp:
      return "ilp";
    case SearchMethod::propagation:
      return "propagation";
    case SearchMethod::recursive:
      return "recursive";
  }
  throw InternalError("internal error: a search method has a name");
}

void warn_of_missing_rules(const Graph& graph) {
  std::vector<std::string> op_types;
  for (const graph::Node& node : graph.nodes) {
    if (!sharding::sharding_rule(graph, node)) op_types.push_back(qualified_op_type(node));
  }
  warn_of_missing_rules(op_types);
}

plan::Plan search_plan(const Graph& graph, const cost::CostModel& cost,
                       const SearchOptions& options) {
  return search_plan(graph::whole_stage(graph), cost, options);
}

plan::Plan search_plan(const graph::StageGraph& stage, const cost::CostModel& cost,
                       const SearchOptions& options) {
  return PlanSearch(stage, cost, options).run();
}

}  // namespace autopar::search
