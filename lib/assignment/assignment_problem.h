#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "assignment/cost_table.h"
#include "assignment/deadline.h"
#include "assignment/parameters.h"

namespace autopar::assignment {

/// In `usage_limits`: the time has no limit.
inline constexpr std::int64_t no_limit = -1;

/// Choose a strategy for every node so that the sum of node and edge costs is least and at no time
/// the usages of the nodes alive then exceed that time's limit. It is the problem of the ASPLOS /
/// EuroSys 2025 contest on intra-operator parallelism, and Alpa's ILP with memory over time.
struct AssignmentProblem {
  struct Node {
    std::vector<Cost> costs;           ///< by strategy, at least one
    std::vector<std::int64_t> usages;  ///< by strategy, not negative
    int first = 0;                     ///< the usage counts at times [first, end)
    int end = 0;
  };
  struct Edge {
    int a = 0;
    int b = 0;
    CostTable costs;  ///< row-major: a's strategy times b's count, plus b's strategy
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  /// By time; times beyond its end, and negative entries, have no limit.
  std::vector<std::int64_t> usage_limits;
};

/// A strategy a node.
using Choice = std::vector<int>;

/// `optimal` and `infeasible` are proven; `feasible` is the best found, `unknown` means that the
/// time ran out before any choice within the limits was found.
enum class Status { optimal, feasible, infeasible, unknown };

struct Solution {
  Status status = Status::unknown;
  Choice choice = {};  ///< empty unless optimal or feasible
  Cost cost = impossible;
  Cost lower_bound = 0;  ///< no choice costs less; equals `cost` where optimal
  double seconds = 0;
  double glpk_seconds = 0;  ///< the part of `seconds` in GLPK
};

struct SolveOptions {
  double time_limit_seconds = 60;
  double work_limit_seconds = unlimited_seconds;  ///< of deterministic work (deadline.h)
  /// After so many seconds of work a gap of this part of the cost is
  /// small enough to stop.
  double patience_seconds = unlimited_seconds;
  double small_gap = 0.001;
  bool presolve = true;  ///< false: GLPK is handed the whole problem
  /// Known choices to begin with, within the limits or not.
  std::vector<Choice> starts = {};
  /// With the same seed and number of threads the answer is the same, unless time ends the search.
  unsigned seed = 1;
  int threads = 0;  ///< 0: as many as the machine has
  bool log = false;
  SolverParameters parameters = {};
};

/// An edge at one of its two nodes.
struct Link {
  std::size_t edge;
  int other;  ///< its other node
};
/// By node, its edges in their order.
using Links = std::vector<std::vector<Link>>;
Links links_of(const AssignmentProblem& problem);
/// What strategy s of `node`, one of the edge's two, and strategy t of the other cost together.
inline Cost pair_cost(const AssignmentProblem& problem, const AssignmentProblem::Edge& edge,
                      int node, std::size_t s, std::size_t t) {
  const std::size_t columns = problem.nodes[edge.b].costs.size();
  return edge.a == node ? edge.costs[s * columns + t] : edge.costs[t * columns + s];
}

/// The representative of a node in disjoint sets, in which `next` leads towards it (union-find).
inline int root_of(std::vector<int>& next, int node) {
  while (next[node] != node) node = next[node] = next[next[node]];
  return node;
}

/// The number of costs of all nodes and tables; a table that edges share counts once.
double size_of(const AssignmentProblem& problem);
/// Throws InternalError where sizes or indices do not fit together.
void check(const AssignmentProblem& problem);
/// The choice's cost, `impossible` where it holds an impossible strategy or pair; sums saturate.
Cost cost_of(const AssignmentProblem& problem, const Choice& choice);
/// The usage at each time of the problem's horizon.
std::vector<std::int64_t> usage_over_time(const AssignmentProblem& problem, const Choice& choice);
bool within_limits(const AssignmentProblem& problem, const Choice& choice);
/// False where some limit is exceeded even if every node uses as little as it can.
bool may_be_within_limits(const AssignmentProblem& problem);

/// The cheapest choice within the limits, proven, or the best found in time with a bound.
Solution solve(const AssignmentProblem& problem, const SolveOptions& options);

/// The whole problem as one integer linear program, handed to GLPK's branch and cut. The optimum is
/// claimed only where GLPK proves it and the choice, priced anew, agrees. A deadline takes the
/// place of the options' time limit; work is counted on its clock.
Solution solve_with_glpk(const AssignmentProblem& problem, const SolveOptions& options,
                         const std::optional<Deadline>& deadline = {});

}  // namespace autopar::assignment
