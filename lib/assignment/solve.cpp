// The solver's outline. Presolve and split into components. Solve each exactly where that is
// quick: by elimination without limits, with labels under limits, small ones by GLPK. Else fold
// what repeats and begin with that; eliminate a chain of layers at prices in place of limits;
// improve choices and bounds side by side; fix strategies by reduced cost and solve what is left in
// the same way; search below goals between bound and cost; branch. Every level works on a smaller
// problem, and hands an incumbent back.

#include <algorithm>
#include <optional>

#include "assignment/phases.h"
#include "assignment/presolve/presolve.h"
#include "assignment/presolve/usage_rows.h"
#include "base/in_parallel.h"
#include "base/stopwatch.h"

namespace autopar::assignment {

namespace {

/// Improves, fixes, searches below goals and branches by turns, in slices of work that grow.
Incumbent alternate(const Subproblem& component, const std::optional<ChainOfLayers>& chain,
                    SolveContext& context) {
  const SolverParameters& parameters = context.parameters();
  const double begin = context.clock.seconds;
  Portfolio portfolio(component, context.threads, context.options.seed, parameters);
  if (portfolio.seconds_to_relax() >= parameters.folded.least_seconds_to_relax) {
    const bool is_first = chain && is_price_soon_found(*chain, component, parameters);
    if (is_first) eliminate_at_prices(*chain, portfolio, context);
    if (portfolio.is_finished()) return portfolio.incumbent();
    const bool is_folded = begin_folded(chain.has_value(), portfolio, context);
    if (chain && !is_first) {
      if (!is_folded)
        find_prices(component.deadline.share(parameters.folded.share), portfolio,
                    parameters.folded);
      eliminate_at_prices(*chain, portfolio, context);
    }
  }
  portfolio.begin_thriftily();
  const auto solve_rest = [&](Subproblem rest) {
    const Incumbent known = portfolio.incumbent();
    return combine(known, solve_subproblem(std::move(rest), context), portfolio.goal());
  };
  if (auto rest = improve_until_stuck(portfolio, parameters)) return solve_rest(std::move(*rest));
  double slice = context.clock.seconds - begin;
  double label_seconds = std::max(parameters.goals.least_seconds, portfolio.seconds_to_relax());
  for (double goal_part = 0; !portfolio.is_finished();
       slice *= parameters.improve.growth_of_slices) {
    if (is_near_end(portfolio, context)) {
      portfolio.run(component.deadline, false);
      break;
    }
    const MinMarginals min_marginals = portfolio.relaxation().min_marginals();
    Subproblem rest = fix_by_reduced_cost(portfolio, min_marginals, portfolio.goal());
    if (context.options.log) log_progress(portfolio, rest);
    if (is_worth_presolving(rest, component, parameters)) return solve_rest(std::move(rest));
    if (rest.problem.nodes.size() <= parameters.exact.most_nodes_for_labels) {
      search_below_goals(min_marginals, label_seconds, context, portfolio);
      label_seconds *= parameters.goals.growth_of_seconds;
    }
    if (portfolio.is_finished()) break;
    if (is_near_end(portfolio, context)) continue;
    bool is_certain = true;
    if (portfolio.seconds_to_relax() < parameters.branch.share_to_relax * slice) {
      rest.deadline = component.deadline.within_work(slice);
      portfolio.offer(branch(rest, context), portfolio.goal());
    } else {
      is_certain = try_lower_goal(min_marginals, slice, goal_part, context, portfolio);
    }
    if (portfolio.is_finished()) break;
    portfolio.perturb();
    portfolio.run(component.deadline.within_work(slice), is_certain);
  }
  return portfolio.incumbent();
}

/// Chains of layers are eliminated at prices while presolve's tables are small; what is none is
/// presolved further.
Incumbent solve_component(Subproblem component, SolveContext& context) {
  std::optional<ChainOfLayers> chain;
  if (component.is_root && component.is_chain) {
    chain = find_chain(component.problem, component.deadline, context.parameters());
    component.is_chain = chain.has_value();
    if (!chain) return solve_subproblem(std::move(component), context);
  }
  if (std::optional<Incumbent> exact = solve_exactly(component, context)) return *exact;
  return component.is_root ? alternate(component, chain, context) : branch(component, context);
}

/// What is known of a presolved problem while its components are solved one after the other. The
/// cost and the bound of those that are not solved yet count as 0.
struct CoreIncumbent {
  Choice choice;  ///< by the core's node
  WideCost cost = 0;
  WideCost bound = 0;
  bool has_choice = true;  ///< of every component so far
};

void add(const std::vector<int>& nodes, const Incumbent& component, CoreIncumbent& core) {
  core.bound += component.bound;
  core.cost += component.cost;
  core.has_choice = core.has_choice && !component.choice.empty();
  for (std::size_t k = 0; k < component.choice.size(); ++k) {
    core.choice[nodes[k]] = component.choice[k];
  }
}

/// The subproblem of a component, without starts: its cutoff is that of the whole less the bounds
/// so far, and it gets a share of the time and work that are left.
Subproblem component_of(const Subproblem& whole, const CoreIncumbent& so_far,
                        AssignmentProblem problem, const std::vector<double>& prices,
                        double share) {
  Subproblem component{.problem = std::move(problem),
                       .cutoff = saturated(whole.cutoff - so_far.bound),
                       .prices = prices,
                       .deadline = whole.deadline.share(share),
                       .patience = whole.patience,
                       .is_root = whole.is_root,
                       .is_chain = whole.is_chain};
  Patience& patience = component.patience;
  patience.cost_elsewhere += static_cast<double>(saturated(so_far.bound));
  if (so_far.has_choice) patience.gap_elsewhere += static_cast<double>(so_far.cost - so_far.bound);
  return component;
}

Solution solution_of(Incumbent incumbent) {
  if (incumbent.is_infeasible()) return {.status = Status::infeasible, .lower_bound = impossible};
  const bool is_optimal = incumbent.cost <= incumbent.bound;
  Solution solution{.cost = incumbent.cost, .lower_bound = incumbent.bound};
  if (!incumbent.choice.empty()) {
    solution.status = is_optimal ? Status::optimal : Status::feasible;
  }
  solution.choice = std::move(incumbent.choice);
  return solution;
}

/// Whether no sum of possible costs comes near `impossible`, which presolve requires.
bool has_moderate_costs(const AssignmentProblem& problem) {
  WideCost sum = 0;
  const auto add_largest = [&](const auto& costs) {
    Cost largest = 0;
    for (const Cost cost : costs) {
      if (cost >= impossible) continue;
      largest = std::max(largest, cost < 0 ? -std::max(cost, -impossible) : cost);
    }
    sum += largest;
  };
  for (const auto& node : problem.nodes) add_largest(node.costs);
  for (const auto& edge : problem.edges) add_largest(edge.costs);
  return sum < impossible / 4;
}

std::optional<Presolved> presolve_counted(Subproblem& whole, SolveContext& context) {
  whole.deadline.count(size_of(whole.problem) / context.parameters().work.presolved_a_second);
  const Stopwatch stopwatch;
  SolverParameters::Presolve parameters = context.parameters().presolve;
  if (whole.is_root && whole.is_chain)
    parameters.most_cells_of_elimination = parameters.most_cells_at_first;
  auto presolved = presolve(std::move(whole.problem), std::move(whole.prices), parameters,
                            whole.deadline.share(parameters.most_of_time));
  context.longest_presolve = std::max(context.longest_presolve, stopwatch.seconds());
  return presolved;
}

}  // namespace

double count_strategies(const AssignmentProblem& problem) {
  double count = 0;
  for (const auto& node : problem.nodes) {
    count += static_cast<double>(
        std::ranges::count_if(node.costs, [](Cost cost) { return cost < impossible; }));
  }
  return count;
}

Incumbent solve_subproblem(Subproblem whole, SolveContext& context) {
  std::optional<Presolved> presolved = presolve_counted(whole, context);
  if (!presolved) return {.bound = impossible};
  CoreIncumbent core{.choice = Choice(presolved->core.nodes.size(), 0),
                     .cost = presolved->constant,
                     .bound = presolved->constant};
  std::vector<Choice> starts;  // those that the core can hold
  for (const auto& start : whole.starts) {
    if (auto reduced = presolved->reduced(start)) starts.push_back(std::move(*reduced));
  }
  const auto parts = components(presolved->core);
  double strategies_left = count_strategies(presolved->core);
  std::vector<AssignmentProblem> problems = subproblems(std::move(presolved->core), parts);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const double strategies = count_strategies(problems[k]);
    Subproblem component = component_of(whole, core, std::move(problems[k]), presolved->prices,
                                        strategies / strategies_left);
    strategies_left -= strategies;
    if (!compress_usage(component.problem, &component.prices)) return {.bound = impossible};
    for (const auto& start : starts) {
      Choice& part = component.starts.emplace_back();
      for (const int i : parts[k]) part.push_back(start[i]);
    }
    const Incumbent solved = solve_component(std::move(component), context);
    if (solved.is_infeasible()) return {.bound = impossible};
    add(parts[k], solved, core);
  }
  if (!core.has_choice) return {.bound = saturated(core.bound)};
  return make_incumbent(presolved->original(core.choice), saturated(core.cost),
                        saturated(core.bound));
}

Solution solve(const AssignmentProblem& problem, const SolveOptions& options) {
  check(problem);
  const Stopwatch stopwatch;
  if (!options.presolve || !has_moderate_costs(problem)) return solve_with_glpk(problem, options);
  WorkClock clock;
  const Deadline deadline =
      Deadline(options.time_limit_seconds, clock).within_work(options.work_limit_seconds);
  const Deadline patience =
      Deadline(unlimited_seconds, clock).within_work(options.patience_seconds);
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(cores());
  SolveContext context{options, clock, threads};
  Incumbent incumbent = solve_subproblem({.problem = problem,
                                          .starts = options.starts,
                                          .deadline = deadline,
                                          .patience = {patience, options.small_gap}},
                                         context);
  for (const auto& start : options.starts) {
    // The reductions may have taken away what the start holds.
    offer(problem, start, incumbent);
    incumbent.bound = std::min(incumbent.bound, incumbent.cost);
  }
  Solution solution = solution_of(std::move(incumbent));
  solution.seconds = stopwatch.seconds();
  solution.glpk_seconds = context.glpk_seconds;
  return solution;
}

}  // namespace autopar::assignment
