#pragma once

#include <optional>
#include <random>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/local_search/usage_tree.h"

namespace autopar::assignment {

/// New strategies for some nodes.
struct RegionMove {
  std::vector<int> nodes;
  std::vector<int> strategies;  ///< by place in `nodes`
  Cost saved = 0;
};

/// Finds moves of regions: nodes around a node, set free together and solved by label search
/// (elimination/label_search.h) beside all others, which stay. Trees (free_trees.h) move more nodes
/// at once; a region may have cycles. Nodes with most edges, on which all others hang, stay but for
/// the one that a region is around. What a region takes depends on its size, not on the problem's.
class Regions {
 public:
  /// `problem` has compressed usage (usage_rows.h), and must outlive it.
  Regions(const AssignmentProblem& problem, const SolverParameters& parameters);

  /// Draws a region around a node and looks for better strategies. `choice` must be possible and
  /// within the limits, as `usage` has it; the price of a unit of usage is the difference of
  /// `price_until` between two times. nullopt where there are none, or the region is too large.
  std::optional<RegionMove> find(const Choice& choice, const UsageTree& usage,
                                 const std::vector<double>& price_until, std::mt19937_64& random,
                                 const Deadline& deadline);
  /// The work of all calls so far, in seconds.
  double seconds() const { return clock_.seconds; }

 private:
  void draw(const Choice& choice, std::mt19937_64& random);
  int draw_root(const Choice& choice, std::mt19937_64& random) const;
  double cost_around(int node, const Choice& choice) const;
  void note_times();
  AssignmentProblem make_problem(const Choice& choice, const UsageTree& usage) const;
  void limit_usage(const Choice& choice, const UsageTree& usage, AssignmentProblem& region) const;
  std::vector<double> prices(const std::vector<double>& price_until) const;

  const AssignmentProblem& problem_;
  const SolverParameters parameters_;
  const Links links_;
  std::vector<std::size_t> ends_;  ///< by node, the ends of edges at nodes before it
  double most_nodes_;              ///< of a region; learnt
  WorkClock clock_;

  std::vector<int> nodes_;  ///< of this region
  std::vector<int> place_;  ///< by node; -1 where it stays
  std::vector<int> times_;  ///< at which usage of this region may change, ascending
};

}  // namespace autopar::assignment
