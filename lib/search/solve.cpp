// Presolve, take components apart, and solve each: by elimination where no limit is and tables stay
// small, else by branch and bound over the relaxation. What the bound rules out is taken away, and
// the problem that is left is presolved anew, so that every level works on a smaller one.

#include <algorithm>
#include <optional>

#include "search/assignment_problem.h"
#include "search/components.h"
#include "search/elimination.h"
#include "search/presolve.h"
#include "search/relaxation.h"
#include "search/stopwatch.h"
#include "search/usage_rows.h"

namespace autopar::search {

namespace {

constexpr std::size_t most_cells_of_a_table = 20'000;
/// Worth beginning anew where it leaves no more than this part of the strategies.
constexpr double worthwhile_rest = 0.8;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// True where no sum of possible costs comes near `impossible`, as the reductions need it.
bool has_moderate_costs(const AssignmentProblem& problem) {
  WideCost sum = 0;
  const auto add_largest = [&](const std::vector<Cost>& costs) {
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

Cost saturated(WideCost cost) {
  return static_cast<Cost>(std::clamp<WideCost>(cost, -impossible, impossible));
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

class Solver {
 public:
  Solver(const SolveOptions& options, const Deadline& deadline)
      : options_(options), deadline_(deadline) {}

  /// The cheapest choice below the cutoff. Where none is below it, the lower bound is at least the
  /// cutoff, whatever the status says.
  Solution solve(const AssignmentProblem& problem, Cost cutoff) {
    const std::optional<Presolved> presolved = presolve(problem);
    if (!presolved) return infeasible();
    const AssignmentProblem& core = presolved->core;
    const auto parts = components(core);
    std::vector<int> choice(core.nodes.size(), 0);
    bool is_known = true;
    WideCost bound = presolved->constant;
    for (const std::vector<int>& nodes : parts) {
      AssignmentProblem part = subproblem(core, nodes);
      if (!compress_usage(part)) return infeasible();
      // What the other parts cost at least is not this one's to spend.
      const Solution solution = solve_part(part, saturated(cutoff - bound));
      if (solution.status == Status::infeasible) return infeasible();
      bound += solution.lower_bound;
      is_known = is_known && !solution.choice.empty();
      for (std::size_t k = 0; k < solution.choice.size(); ++k) {
        choice[at(nodes[k])] = solution.choice[k];
      }
    }
    Solution result{.lower_bound = saturated(bound)};
    if (!is_known) return result;
    choice = presolved->original(choice);
    const Cost cost = cost_of(problem, choice);
    if (cost >= impossible || !within_limits(problem, choice)) return result;
    return found(std::move(choice), cost, result.lower_bound);
  }

  double glpk_seconds() const { return glpk_seconds_; }

 private:
  Solution solve_part(const AssignmentProblem& problem, Cost cutoff) {
    if (problem.usage_limits.empty()) {
      if (const auto choice = choose_by_elimination(problem, most_cells_of_a_table)) {
        const Cost cost = cost_of(problem, *choice);
        return found(*choice, cost, cost);
      }
      return branch(problem, cutoff);
    }
    SolveOptions left = options_;
    left.time_limit_seconds = std::max(0.0, deadline_.left());
    Solution solution = solve_with_glpk(problem, left);
    glpk_seconds_ += solution.glpk_seconds;
    return solution;
  }

  Solution branch(const AssignmentProblem& problem, Cost cutoff) {
    const Relaxed relaxed = relax(problem, {.cutoff = cutoff, .deadline = deadline_});
    Solution best = found(relaxed.choice, relaxed.cost, relaxed.bound);
    if (relaxed.choice.empty()) best.status = Status::unknown;
    const Cost goal = std::min(best.cost, cutoff);
    if (relaxed.bound >= goal || deadline_.is_over()) return best;

    const AssignmentProblem smaller = without_hopeless(problem, relaxed, goal);
    if (strategies_of(smaller) <= worthwhile_rest * strategies_of(problem)) {
      return better(best, solve(smaller, goal), goal);
    }
    // One strategy of the node that decides most, or any other of its strategies.
    const int node = node_that_decides_most(smaller, relaxed, goal);
    const auto& bounds = relaxed.bounds_with[at(node)];
    const auto likely = std::ranges::min_element(bounds) - bounds.begin();
    std::vector<char> is_removed(bounds.size(), 1);
    is_removed[static_cast<std::size_t>(likely)] = 0;
    Solution with = solve(without(smaller, node, is_removed), goal);
    for (char& removed : is_removed) removed = !removed;
    const Cost next_goal = std::min(goal, with.cost);
    Solution others = solve(without(smaller, node, is_removed), next_goal);
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

  static AssignmentProblem without_hopeless(AssignmentProblem problem, const Relaxed& relaxed,
                                            Cost goal) {
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      auto& costs = problem.nodes[i].costs;
      for (std::size_t s = 0; s < costs.size(); ++s) {
        if (relaxed.bounds_with[i][s] >= goal) costs[s] = impossible;
      }
    }
    return problem;
  }

  static double strategies_of(const AssignmentProblem& problem) {
    double count = 0;
    for (const auto& node : problem.nodes) {
      count += static_cast<double>(
          std::ranges::count_if(node.costs, [](Cost cost) { return cost < impossible; }));
    }
    return count;
  }

  /// The undecided node with the most edges: a tensor that every layer reads, where there is one.
  static int node_that_decides_most(const AssignmentProblem& problem, const Relaxed& relaxed,
                                    Cost goal) {
    std::vector<int> degrees(problem.nodes.size(), 0);
    for (const auto& edge : problem.edges) {
      ++degrees[at(edge.a)];
      ++degrees[at(edge.b)];
    }
    int decisive = 0;
    std::pair<bool, int> most{false, -1};
    for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
      const auto& bounds = relaxed.bounds_with[i];
      const auto possible = std::ranges::count_if(bounds, [&](Cost b) { return b < goal; });
      if (possible < 2) continue;
      const Cost slack = (goal - relaxed.bound) / 64;
      const auto likely =
          std::ranges::count_if(bounds, [&](Cost b) { return b <= relaxed.bound + slack; });
      const std::pair key{likely > 1, degrees[i]};
      if (key <= most) continue;
      most = key;
      decisive = static_cast<int>(i);
    }
    return decisive;
  }

  const SolveOptions& options_;
  const Deadline& deadline_;
  double glpk_seconds_ = 0;
};

}  // namespace

Solution solve(const AssignmentProblem& problem, const SolveOptions& options) {
  check(problem);
  const Stopwatch stopwatch;
  const Deadline deadline(options.time_limit_seconds);
  if (!options.presolve || !has_moderate_costs(problem)) return solve_with_glpk(problem, options);
  Solver solver(options, deadline);
  Solution solution = solver.solve(problem, impossible);
  solution.seconds = stopwatch.seconds();
  solution.glpk_seconds = solver.glpk_seconds();
  return solution;
}

}  // namespace autopar::search
