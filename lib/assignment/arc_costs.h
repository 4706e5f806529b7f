#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "assignment/assignment_problem.h"

namespace autopar::assignment {

/// A problem's graph for algorithms that walk it many times: every edge as two arcs, one at each
/// end, with its costs as whole numbers in doubles, multiples of 1 / scale of the cost's unit.
/// Whole numbers below 2^53 are summed and compared exactly in doubles, and quickly.
class ArcCosts {
 public:
  /// A scale at which sums of the size of `typical` stay well below 2^53, a power of two.
  static double scale_for(WideCost typical);
  /// Without `most`, costs above 2^50 / scale are lowered to that and impossible ones are infinite;
  /// with it, costs above `most` and impossible ones are `most`.
  ArcCosts(const AssignmentProblem& problem, double scale, std::optional<double> most = {});

  struct Arc {
    int node = 0;   ///< at this end
    int other = 0;  ///< at the other end
    std::size_t reverse = 0;
    std::size_t costs = 0;    ///< where the matrix starts: rows by the other's strategy
    std::size_t message = 0;  ///< where its messages start in a list by arc and strategy
  };

  std::size_t nodes() const { return first_strategy_.size() - 1; }
  std::size_t strategies(std::size_t i) const {
    return first_strategy_[i + 1] - first_strategy_[i];
  }
  std::size_t first_strategy(std::size_t i) const { return first_strategy_[i]; }
  /// Sorted by the number of the other end.
  std::span<const Arc> arcs(std::size_t i) const {
    return std::span(arcs_).subspan(first_arc_[i], first_arc_[i + 1] - first_arc_[i]);
  }
  const Arc& arc(std::size_t k) const { return arcs_[k]; }
  /// The first arc of node i; for i = nodes() the number of all arcs.
  std::size_t first_arc(std::size_t i) const { return first_arc_[i]; }
  std::size_t message_entries() const { return message_entries_; }
  /// The costs with strategy t of the other end, by strategy of this end.
  const double* row(const Arc& arc, std::size_t t) const {
    return costs_.data() + arc.costs + t * strategies(static_cast<std::size_t>(arc.node));
  }
  double node_cost(std::size_t i, std::size_t s) const {
    return node_costs_[first_strategy_[i] + s];
  }
  double scale() const { return scale_; }

 private:
  double scale_;
  std::vector<std::size_t> first_strategy_;  ///< by node, and the end
  std::vector<double> node_costs_;
  std::vector<std::size_t> first_arc_;  ///< by node, and the end
  std::vector<Arc> arcs_;
  std::vector<double> costs_;  ///< matrices, which arcs share
  std::size_t message_entries_ = 0;
};

}  // namespace autopar::assignment
