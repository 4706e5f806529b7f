#include "search/search_plan.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "graph/arena.h"
#include "graph/error.h"
#include "search/plan_builder.h"

namespace autopar::search {

namespace {

using graph::Graph;

struct Unit {
  std::string_view suffix;
  double bytes;
};
constexpr Unit units[] = {
    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
    {"KB", 1e3},     {"MB", 1e6},        {"GB", 1e9},           {"TB", 1e12},
    {"B", 1.0},      {"", 1.0}};

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

[[noreturn]] void fail_for_memory(const PlanProblem& built, const SearchOptions& options,
                                  const SolveOptions& solve_options) {
  const int horizon = static_cast<int>(built.problem.usage_limits.size());
  const std::int64_t limit = options.memory.kind == MemoryPolicy::Kind::bytes
                                 ? options.memory.bytes
                                 : built.problem.usage_limits.back();
  AssignmentProblem unlimited = built.problem;
  const auto least = least_peak_usage(unlimited, 0, horizon, solve_options);
  if (!least) {
    fail(
        "nothing fits a memory limit of {} bytes a device, as far as the time limit let see: "
        "raise --memory or --time-limit",
        limit);
  }
  fail(
      "nothing fits a memory limit of {} bytes a device: the smallest that does is {:.1f} MiB "
      "({} bytes): raise --memory or add devices",
      limit, static_cast<double>(*least) / 1048576.0, *least);
}

/// The choice of the solver in the words of a plan.
Plan decode(const PlanProblem& built, const std::vector<int>& choice, const cost::CostModel& cost) {
  Plan plan;
  plan.mesh = cost.mesh();
  plan.device = cost.device().name;
  const auto chosen = [&](std::size_t node) { return static_cast<std::size_t>(choice[node]); };
  for (std::size_t id = 0; id < built.operators.size(); ++id) {
    plan.operators.push_back(built.operators[id][chosen(id)]);
  }
  for (const auto& [value, stored] : built.stored) {
    plan.stored.emplace(value, stored.specs[chosen(static_cast<std::size_t>(stored.node))]);
  }
  return plan;
}

double one_device_seconds(const Graph& graph, const cost::CostModel& cost) {
  const cost::CostModel alone(cost.device(), sharding::DeviceMesh({1}));
  double seconds = 0;
  for (const graph::Node& node : graph.nodes) {
    const auto rule = sharding::replicated_rule(graph, node);
    const auto known = sharding::sharding_rule(graph, node);
    const auto choices = sharding::enumerate_op_shard_specs(known ? *known : rule, alone.mesh(),
                                                            sharding::input_shapes(graph, node),
                                                            sharding::output_shapes(graph, node));
    seconds += alone.operator_seconds(graph, node, known ? *known : rule, choices.front());
  }
  return seconds;
}

std::int64_t constant_bytes(const Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::Value& value : graph.values) {
    if (value.constant) bytes += value.constant->size_bytes();
  }
  return bytes;
}

/// Seconds that are not operators': what the choice costs beyond them.
double communication_seconds(const Graph& graph, const cost::CostModel& cost, const Plan& plan,
                             double total) {
  double computation = 0;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    const auto rule = sharding::sharding_rule(graph, node);
    computation += cost.operator_seconds(
        graph, node, rule ? *rule : sharding::replicated_rule(graph, node), plan.operators[id]);
  }
  return std::max(0.0, total - computation);
}

}  // namespace

MemoryPolicy MemoryPolicy::parse(const std::string& text) {
  if (text == "fair") return {Kind::fair, 0};
  if (text == "device") return {Kind::device, 0};
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& unit : units) {
    if (error == std::errc() && suffix == unit.suffix && amount > 0 && amount * unit.bytes < 9e18) {
      return {Kind::bytes, static_cast<std::int64_t>(amount * unit.bytes)};
    }
  }
  fail("--memory {}: give fair, device, or a size such as 80GiB, 500MB or 1048576", text);
}

Plan search_plan(const Graph& graph, const cost::CostModel& cost, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const PlanProblem built = build_plan_problem(graph, cost, options);
  warn_of_missing_rules(built.operators_without_rule);

  const SolveOptions solve_options{.time_limit_seconds = options.time_limit_seconds};
  const Solution solution = solve_with_glpk(built.problem, solve_options);
  if (solution.status == Status::infeasible) fail_for_memory(built, options, solve_options);
  if (solution.status == Status::unknown) {
    fail("no plan found within {} s: raise --time-limit or --memory", options.time_limit_seconds);
  }

  Plan plan = decode(built, solution.choice, cost);
  PlanSummary& summary = plan.summary;
  summary.solver_seconds = solution.seconds;
  summary.cost_seconds = static_cast<double>(solution.cost) * seconds_per_cost;
  summary.lower_bound_seconds =
      std::max(0.0, static_cast<double>(solution.lower_bound) * seconds_per_cost);
  summary.proven_optimal = solution.status == Status::optimal;
  summary.communication_seconds = communication_seconds(graph, cost, plan, summary.cost_seconds);
  const std::vector<std::int64_t> usage = usage_over_time(built.problem, solution.choice);
  summary.weight_bytes = usage.empty() ? 0 : usage.front();
  summary.peak_bytes = usage.empty() ? 0 : std::ranges::max(usage);
  summary.one_device_seconds = one_device_seconds(graph, cost);
  summary.one_device_bytes =
      constant_bytes(graph) + graph::plan_arena(graph::value_lifetimes(graph)).bytes;
  summary.search_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace autopar::search
