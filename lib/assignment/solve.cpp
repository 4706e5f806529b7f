// Presolve, take components apart, and solve each: by elimination where tables stay small, with
// labels where limits are, else by branch and bound over the relaxation. What the bound rules out
// is taken away, and the problem that is left is presolved anew, so that every level works on a
// smaller one.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "assignment/assignment_problem.h"
#include "assignment/components.h"
#include "assignment/elimination/elimination.h"
#include "assignment/elimination/label_search.h"
#include "assignment/exact/glpk_solver.h"
#include "assignment/local_search/portfolio.h"
#include "assignment/presolve/presolve.h"
#include "assignment/presolve/usage_rows.h"
#include "assignment/relaxation/message_passing.h"
#include "assignment/saturating.h"
#include "base/stopwatch.h"

namespace autopar::assignment {

namespace {

constexpr double most_cells_of_a_table = 20'000;
/// Worth beginning anew where it leaves no more than this part of the strategies.
constexpr double worthwhile_rest = 0.8;
/// Goals between cost and bound, in steps of the gap, that leave so few of the strategies.
constexpr double step_of_optimism = 0.15;
constexpr double few_strategies = 0.3;
/// Labels are searched where there are no more nodes, at first with tables that take so many
/// seconds of work, or as many as memory allows, and comparisons that take so many times as long.
constexpr std::size_t most_nodes_to_eliminate = 10'000;
constexpr double least_seconds_of_labels = 0.1;
constexpr double labels_over_tables = 8;
constexpr double least_seconds_of_tables = 0.6;
constexpr double most_seconds_of_tables = 2;
/// Goals below which labels are searched, as parts of the gap.
constexpr double step_of_goals = 0.6;
constexpr double least_part_of_gap = 0.01;
/// Of the first run, before a look at what the bound rules out; then twice as many.
constexpr int first_rounds = 2;
constexpr double share_of_first_run = 0.4;
/// Branching is for problems whose relaxation takes at most this part of the work it gets.
constexpr double share_to_relax = 0.1;
/// To look around takes at most so many times as long as a round or a presolve.
constexpr double times_to_look_around = 3;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// True where no sum of possible costs comes near `impossible`, as the reductions need it.
bool has_moderate_costs(const AssignmentProblem& problem) {
  WideCost sum = 0;
  const auto add_largest = [&](const auto& costs) {
    Cost largest = 0;
    for (const Cost cost : costs) {
      if (cost < impossible)
        largest = std::max(largest, cost < 0 ? -std::max(cost, -impossible) : cost);
    }
    sum += largest;
  };
  for (const auto& node : problem.nodes) add_largest(node.costs);
  for (const auto& edge : problem.edges) add_largest(edge.costs);
  return sum < impossible / 4;
}

Solution infeasible() {
  return {.status = Status::infeasible, .choice = {}, .lower_bound = impossible};
}

Solution found(std::vector<int> choice, Cost cost, Cost bound) {
  return {.status = cost <= bound ? Status::optimal : Status::feasible,
          .choice = std::move(choice),
          .cost = cost,
          .lower_bound = std::min(bound, cost)};
}

/// The problem without some strategies, whose costs become impossible.
AssignmentProblem without(AssignmentProblem problem, int node,
                          const std::vector<char>& is_removed) {
  auto& costs = problem.nodes[at(node)].costs;
  for (std::size_t s = 0; s < costs.size(); ++s) {
    if (is_removed[s]) costs[s] = impossible;
  }
  return problem;
}

/// A problem, what is asked of its choices, and what is known from a larger one that holds it.
struct Task {
  AssignmentProblem problem;
  Cost cutoff = impossible;              ///< choices that cost as much are of no interest
  std::vector<double> prices;            ///< by time, of a unit of usage, to begin with
  std::vector<std::vector<int>> starts;  ///< choices to begin with
  Deadline deadline;
  Patience patience;
  bool is_root = true;  ///< no branch has been taken
};

std::vector<std::vector<int>> components_in_sweep_order(const AssignmentProblem& problem) {
  std::vector<int> ranks(problem.nodes.size());
  const std::vector<int> order = sweep_order(problem);
  for (std::size_t k = 0; k < order.size(); ++k) ranks[at(order[k])] = static_cast<int>(k);
  auto parts = components(problem);
  for (auto& nodes : parts) std::ranges::sort(nodes, {}, [&](int i) { return ranks[at(i)]; });
  return parts;
}

double strategies_of(const AssignmentProblem& problem) {
  double count = 0;
  for (const auto& node : problem.nodes) {
    count += static_cast<double>(
        std::ranges::count_if(node.costs, [](Cost cost) { return cost < impossible; }));
  }
  return count;
}

class Solver {
 public:
  /// Work is counted on the clock.
  Solver(const SolveOptions& options, const WorkClock& clock)
      : options_(options),
        clock_(clock),
        threads_(options.threads > 0
                     ? options.threads
                     : std::max(1, static_cast<int>(std::thread::hardware_concurrency()))) {}

  /// The cheapest choice below the cutoff. Where none is below it, the lower bound is at least the
  /// cutoff, whatever the status says.
  Solution solve(Task task) {
    task.deadline.count(size_of(task.problem) / presolved_a_second);
    const Stopwatch stopwatch;
    std::optional<Presolved> presolved = presolve(std::move(task.problem), std::move(task.prices));
    longest_presolve_ = std::max(longest_presolve_, stopwatch.seconds());
    if (!presolved) return infeasible();
    std::vector<std::vector<int>> starts;
    for (const auto& start : task.starts) {
      if (auto reduced = presolved->reduced(start)) starts.push_back(std::move(*reduced));
    }
    const auto parts = components_in_sweep_order(presolved->core);
    std::vector<int> choice(presolved->core.nodes.size(), 0);
    double strategies_left = strategies_of(presolved->core);
    std::vector<AssignmentProblem> problems = subproblems(std::move(presolved->core), parts);
    bool is_known = true;
    WideCost bound = presolved->constant;
    WideCost cost = presolved->constant;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      // What the other parts cost at least is not this one's to spend, and each gets its share of
      // the time that is left.
      const double strategies = strategies_of(problems[k]);
      Task part{.problem = std::move(problems[k]),
                .cutoff = saturated(task.cutoff - bound),
                .prices = {},
                .starts = {},
                .deadline = task.deadline.share(strategies / strategies_left),
                .patience = task.patience,
                .is_root = task.is_root};
      strategies_left -= strategies;
      part.patience.cost_elsewhere += static_cast<double>(saturated(bound));
      if (is_known) part.patience.gap_elsewhere += static_cast<double>(cost - bound);
      part.prices = presolved->prices;
      if (!compress_usage(part.problem, &part.prices)) return infeasible();
      for (const auto& start : starts) {
        std::vector<int>& part_of_start = part.starts.emplace_back();
        for (const int i : parts[k]) part_of_start.push_back(start[at(i)]);
      }
      const Solution solution = solve_part(part);
      if (solution.status == Status::infeasible) return infeasible();
      bound += solution.lower_bound;
      cost += solution.cost;
      is_known = is_known && !solution.choice.empty();
      for (std::size_t place = 0; place < solution.choice.size(); ++place) {
        choice[at(parts[k][place])] = solution.choice[place];
      }
    }
    if (!is_known) return {.lower_bound = saturated(bound)};
    return found(presolved->original(choice), saturated(cost), saturated(bound));
  }

  double glpk_seconds() const { return glpk_seconds_; }

 private:
  Solution solve_part(const Task& task) {
    if (task.problem.usage_limits.empty()) {
      if (const auto choice = choose_by_elimination(task.problem, most_cells_of_a_table)) {
        const Cost cost = cost_of(task.problem, *choice);
        return found(*choice, cost, cost);
      }
    } else if (strategies_of(task.problem) <= options_.most_strategies_for_glpk) {
      return solve_by_glpk(task);
    } else if (task.problem.nodes.size() <= most_nodes_to_eliminate) {
      // Where tables are small this is all that has to be done.
      const auto found_by_labels = search_labels(task.problem, task.prices,
                                                 {.goal = task.cutoff, .deadline = task.deadline});
      if (found_by_labels && found_by_labels->is_exact) {
        if (!found_by_labels->choice) return {.lower_bound = task.cutoff};
        const Cost cost = cost_of(task.problem, *found_by_labels->choice);
        return found(*found_by_labels->choice, cost, cost);
      }
    }
    return task.is_root ? search(task) : branch(task);
  }

  Solution solve_by_glpk(const Task& task) {
    SolveOptions options = options_;
    options.starts = task.starts;
    Solution solution = solve_with_glpk(task.problem, options, task.deadline);
    glpk_seconds_ += solution.glpk_seconds;
    return solution;
  }

  /// Searches and relaxes with all threads, then solves what the bound leaves, in slices of work
  /// that grow.
  Solution search(const Task& task) {
    const double begin = clock_.seconds();
    Portfolio portfolio(task.problem, task.cutoff, task.prices, task.starts,
                        task.patience.cost_elsewhere, threads_, options_.seed);
    const Deadline first = task.deadline.share(share_of_first_run);
    for (int rounds = first_rounds; !portfolio.run(first, task.patience, true, rounds);) {
      // A gap need not be closed to rule most strategies out.
      const auto bounds_with = portfolio.relaxation().bounds_with();
      Task rest = without_hopeless(task, portfolio, bounds_with, portfolio.goal());
      if (strategies_of(rest.problem) <= few_strategies * strategies_of(task.problem)) {
        return better(solution_of(portfolio), solve(std::move(rest)), portfolio.goal());
      }
      rounds *= 2;
    }
    double slice = clock_.seconds() - begin;
    double seconds_of_labels = std::max(least_seconds_of_labels, portfolio.seconds_to_relax());
    for (double optimism = 0; !is_finished(task, portfolio); slice *= 2) {
      if (is_near_end(task, portfolio)) {
        portfolio.run(task.deadline, task.patience, false);
        break;
      }
      const auto bounds_with = portfolio.relaxation().bounds_with();
      Task rest = without_hopeless(task, portfolio, bounds_with, portfolio.goal());
      if (options_.log) log(task, rest, portfolio);
      if (strategies_of(rest.problem) <= worthwhile_rest * strategies_of(task.problem)) {
        return better(solution_of(portfolio), solve(std::move(rest)), portfolio.goal());
      }
      if (rest.problem.nodes.size() <= most_nodes_to_eliminate) {
        search_below_goals(task, bounds_with, seconds_of_labels, portfolio);
        seconds_of_labels *= 2;
      }
      if (is_finished(task, portfolio)) break;
      if (is_near_end(task, portfolio)) continue;
      bool is_exact = true;
      if (portfolio.seconds_to_relax() < share_to_relax * slice) {
        rest.deadline = task.deadline.within_work(slice);
        take_over(branch(rest), portfolio.goal(), portfolio);
      } else {
        is_exact = try_lower_goal(task, bounds_with, optimism, slice, portfolio);
      }
      if (is_finished(task, portfolio)) break;
      portfolio.shake();
      portfolio.run(task.deadline.within_work(slice), task.patience, is_exact);
    }
    return solution_of(portfolio);
  }

  /// Searches what is below the goal, or so far below it that tables are small. So many seconds of
  /// work are for tables.
  void search_below_goals(const Task& task, const std::vector<std::vector<Cost>>& bounds_with,
                          double seconds, Portfolio& portfolio) const {
    const double longest =
        std::clamp(portfolio.seconds_to_relax(), least_seconds_of_tables, most_seconds_of_tables);
    const Cost bound = portfolio.relaxation().bound();
    for (double part = 1; part > least_part_of_gap && !is_finished(task, portfolio);) {
      if (is_near_end(task, portfolio)) return;
      const double gap = static_cast<double>(portfolio.goal() - bound);
      const Cost goal = bound + static_cast<Cost>(part * gap);
      if (goal <= portfolio.bound()) return;
      Task lower = without_hopeless(task, portfolio, bounds_with, goal);
      const auto found =
          search_labels(std::move(lower.problem), std::move(lower.prices),
                        {.goal = portfolio.goal(),
                         .most_cells = std::min(seconds, longest) * cells_a_second,
                         .most_comparisons = labels_over_tables * seconds * comparisons_a_second,
                         .deadline = task.deadline});
      if (!found) {
        part *= step_of_goals;
        continue;
      }
      portfolio.raise_bound(std::min(goal, found->bound));
      if (options_.log) {
        spdlog::info("labels below {}: {}, bound {}{}", goal,
                     found->choice ? "a choice" : "nothing", found->bound,
                     found->is_exact ? ", exact" : "");
      }
      if (!found->choice) return;
      // A better choice leaves less below it.
      portfolio.offer(*found->choice);
      part = 1;
    }
  }

  /// Then there is no time for what takes many sweeps and copies between two looks at the clock.
  bool is_near_end(const Task& task, const Portfolio& portfolio) const {
    const double longest = std::max(portfolio.seconds_of_round(), longest_presolve_);
    return task.deadline.left() < times_to_look_around * longest;
  }

  static bool is_finished(const Task& task, const Portfolio& portfolio) {
    return portfolio.is_done(task.patience) || task.deadline.is_over();
  }

  /// A goal between the bound and the cost leaves fewer strategies: a choice below it is found
  /// among them sooner, or none is and the goal bounds all choices. False where no goal leaves few.
  bool try_lower_goal(const Task& task, const std::vector<std::vector<Cost>>& bounds_with,
                      double& optimism, double slice, Portfolio& portfolio) {
    const double gap = static_cast<double>(portfolio.goal() - portfolio.bound());
    for (optimism += step_of_optimism; optimism < 1; optimism += step_of_optimism) {
      const Cost goal = portfolio.goal() - static_cast<Cost>(optimism * gap);
      double left = 0;
      for (const auto& bounds : bounds_with) {
        left +=
            static_cast<double>(std::ranges::count_if(bounds, [&](Cost b) { return b < goal; }));
      }
      if (left > few_strategies * strategies_of(task.problem)) continue;
      Task lower = without_hopeless(task, portfolio, bounds_with, goal);
      if (options_.log) log(task, lower, portfolio);
      lower.deadline = task.deadline.within_work(slice);
      take_over(solve(std::move(lower)), goal, portfolio);
      return true;
    }
    optimism = 0;
    return false;
  }

  /// What was learnt below a goal.
  static void take_over(const Solution& solution, Cost goal, Portfolio& portfolio) {
    if (!solution.choice.empty()) portfolio.offer(solution.choice);
    portfolio.raise_bound(std::min(solution.lower_bound, goal));
  }

  static Solution solution_of(const Portfolio& portfolio) {
    if (portfolio.choice().empty()) return {.lower_bound = portfolio.bound()};
    return found(portfolio.choice(), portfolio.cost(), portfolio.bound());
  }

  /// The task without the strategies whose bounds are not below the goal, to be solved below it.
  static Task without_hopeless(const Task& task, Portfolio& portfolio,
                               const std::vector<std::vector<Cost>>& bounds_with, Cost goal) {
    Task rest = task;
    rest.cutoff = goal;
    rest.prices = portfolio.relaxation().prices();
    rest.starts.clear();
    if (!portfolio.choice().empty()) rest.starts = {portfolio.choice()};
    remove_hopeless(rest.problem, bounds_with, goal);
    return rest;
  }

  static void remove_hopeless(AssignmentProblem& problem,
                              const std::vector<std::vector<Cost>>& bounds_with, Cost goal) {
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      auto& costs = problem.nodes[i].costs;
      for (std::size_t s = 0; s < costs.size(); ++s) {
        if (bounds_with[i][s] >= goal) costs[s] = impossible;
      }
    }
  }

  /// One strategy of the node that decides most, or any other of its strategies.
  Solution branch(const Task& task) {
    Relaxation relaxation(task.problem, task.prices, task.patience.cost_elsewhere);
    const double most = task.deadline.work_left() * costs_a_second;
    task.deadline.count(relaxation.advance(most, task.cutoff, task.deadline) / costs_a_second);
    Solution best{.lower_bound = relaxation.bound()};
    if (!relaxation.choice().empty()) {
      best = found(relaxation.choice(), relaxation.cost(), relaxation.bound());
    }
    const Cost goal = std::min(best.cost, task.cutoff);
    if (relaxation.bound() >= goal || task.deadline.is_over()) return best;

    const auto bounds_with = relaxation.bounds_with();
    Task rest = task;
    rest.cutoff = goal;
    rest.prices = relaxation.prices();
    rest.starts.clear();
    rest.is_root = false;
    remove_hopeless(rest.problem, bounds_with, goal);
    if (strategies_of(rest.problem) <= worthwhile_rest * strategies_of(task.problem)) {
      return better(best, solve(std::move(rest)), goal);
    }
    const int node = node_that_decides_most(rest.problem, bounds_with, relaxation.bound(), goal);
    const auto& bounds = bounds_with[at(node)];
    const auto likely = std::ranges::min_element(bounds) - bounds.begin();
    std::vector<char> is_removed(bounds.size(), 1);
    is_removed[static_cast<std::size_t>(likely)] = 0;
    Task one = rest;
    one.problem = without(std::move(one.problem), node, is_removed);
    Solution with = solve(std::move(one));
    for (char& removed : is_removed) removed = !removed;
    rest.problem = without(std::move(rest.problem), node, is_removed);
    rest.cutoff = std::min(goal, with.cost);
    Solution others = solve(std::move(rest));
    const Cost bound = std::min(with.lower_bound, others.lower_bound);
    if (others.cost < with.cost) with = std::move(others);
    with.lower_bound = bound;
    return better(best, std::move(with), goal);
  }

  /// Of two answers to one problem the cheaper, with the bound of the second, which was only asked
  /// for choices below the goal.
  static Solution better(Solution known, Solution next, Cost goal) {
    const Cost bound = std::max(known.lower_bound, std::min(next.lower_bound, goal));
    if (next.cost < known.cost) known = std::move(next);
    if (known.choice.empty()) return {.lower_bound = bound};
    return found(std::move(known.choice), known.cost, bound);
  }

  /// The undecided node with the most edges: a tensor that every layer reads, where there is one.
  static int node_that_decides_most(const AssignmentProblem& problem,
                                    const std::vector<std::vector<Cost>>& bounds_with, Cost bound,
                                    Cost goal) {
    std::vector<int> degrees(problem.nodes.size(), 0);
    for (const auto& edge : problem.edges) {
      ++degrees[at(edge.a)];
      ++degrees[at(edge.b)];
    }
    int decisive = 0;
    std::pair<bool, int> most{false, -1};
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      const auto& bounds = bounds_with[i];
      const auto possible = std::ranges::count_if(bounds, [&](Cost b) { return b < goal; });
      if (possible < 2) continue;
      const Cost slack = (goal - bound) / 64;
      const auto likely = std::ranges::count_if(bounds, [&](Cost b) { return b <= bound + slack; });
      const std::pair key{likely > 1, degrees[i]};
      if (key <= most) continue;
      most = key;
      decisive = static_cast<int>(i);
    }
    return decisive;
  }

  void log(const Task& task, const Task& rest, const Portfolio& portfolio) const {
    spdlog::info(
        "{} nodes, {} edges, {} limits: bound {}, cost {}, {} of {} strategies left, {:.1f} s left",
        task.problem.nodes.size(), task.problem.edges.size(), task.problem.usage_limits.size(),
        portfolio.bound(), portfolio.cost(), strategies_of(rest.problem),
        strategies_of(task.problem), task.deadline.left());
  }

  const SolveOptions& options_;
  const WorkClock& clock_;
  const int threads_;
  double longest_presolve_ = 0;  ///< seconds
  double glpk_seconds_ = 0;
};

}  // namespace

Solution solve(const AssignmentProblem& problem, const SolveOptions& options) {
  check(problem);
  const Stopwatch stopwatch;
  if (!options.presolve || !has_moderate_costs(problem)) return solve_with_glpk(problem, options);
  WorkClock clock;
  const Deadline deadline(options.time_limit_seconds, clock);
  const Deadline patience = Deadline(1e18, clock).within_work(options.patience_seconds);
  Solver solver(options, clock);
  Solution solution = solver.solve({.problem = problem,
                                    .prices = {},
                                    .starts = options.starts,
                                    .deadline = deadline,
                                    .patience = {patience, options.small_gap}});
  if (solution.choice.empty() && solution.lower_bound >= impossible) solution = infeasible();
  for (const auto& start : options.starts) {
    // The reductions may have taken away what the start holds.
    const Cost cost = cost_of(problem, start);
    if (cost >= solution.cost || !within_limits(problem, start)) continue;
    solution = found(start, cost, solution.lower_bound);
  }
  solution.seconds = stopwatch.seconds();
  solution.glpk_seconds = solver.glpk_seconds();
  return solution;
}

}  // namespace autopar::assignment
