#pragma once

#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// A choice that is made greedily, node by node, and what each strategy of a node would add to it.
/// The first nodes of the problem are operators; the others serve them (tensors' places, versions
/// and copies) and, while open, count with their best strategies.
class PartialChoice {
 public:
  /// Keeps a reference to `problem`, which must not change.
  PartialChoice(const AssignmentProblem& problem, int num_operators);

  void decide(int node, int strategy);
  bool is_decided(int node) const { return choice_[node] >= 0; }
  const Choice& choice() const { return choice_; }  ///< -1 where open

  /// By strategy of an open operator, the cost of its edges to decided ones, directly and over open
  /// serving nodes.
  std::vector<WideCost> resharding(int node) const;
  /// The same with its own costs, and with the best strategies of the open operators next to it.
  std::vector<WideCost> estimate(int node) const { return sums(node, true); }
  /// The open operators that an edge, or a node that serves both, joins to this one. Each serving
  /// node is looked at once: calls for all nodes take time linear in the edges.
  std::vector<int> take_open_neighbours(int node);

 private:
  bool is_operator(int node) const { return node < num_operators_; }
  std::vector<WideCost> sums(int node, bool looks_ahead) const;
  std::vector<WideCost> best_answers(std::size_t edge, int node,
                                     const std::vector<WideCost>& other) const;
  std::vector<WideCost> serving(int node, int without, bool looks_ahead) const;

  const AssignmentProblem& problem_;
  const int num_operators_;
  Links links_;
  /// By node and strategy, its cost and its edges to decided nodes.
  std::vector<std::vector<WideCost>> so_far_;
  Choice choice_;
  std::vector<char> has_answered_;  ///< in take_open_neighbours
};

}  // namespace autopar::assignment
