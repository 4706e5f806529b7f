#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "assignment/arc_costs.h"
#include "assignment/repetition/repeated_layers.h"

namespace autopar::assignment {

/// A problem whose repeated layers are folded: a cycle of a few of them stands for many, with their
/// costs and, where usage counts at all times, their usages together. A choice of it is a choice of
/// the whole problem of the same cost, in which layers repeat with the cycle. What message passing
/// finds for it is nearly what it would find for the whole, since layers that are alike may as well
/// be treated alike in a relaxation, at a fraction of the work. The whole must outlive it.
class Folding {
 public:
  /// nullopt where too little repeats for it to be worth it.
  static std::optional<Folding> make(const AssignmentProblem& whole);

  /// With the whole's times and limits.
  const AssignmentProblem& problem() const { return problem_; }
  /// By the whole's node, the one of the folded problem that stands for it; RepeatedLayers::none
  /// where nothing is known of it.
  const std::vector<int>& places() const { return place_of_; }
  /// The whole's choice. Limits at times of layers that were left out are not looked at.
  Choice unfolded(const Choice& choice) const;
  /// What message passing has moved, by arc and its node's strategy, for the whole; 0 where nothing
  /// is known. The costs are those that the messages belong to.
  std::vector<double> unfolded(const std::vector<double>& messages, const ArcCosts& folded,
                               const ArcCosts& whole) const;

 private:
  /// Keeps so many layers at either end, a cycle, and what is left over.
  Folding(const AssignmentProblem& whole, const RepeatedLayers& repeated, int ends);
  /// The folded problem's edge for one of the whole's, with the whole's nodes.
  struct Folded {
    int a;
    int b;
    int times;  ///< that it stands for; 0: another edge stands for this one
  };
  /// nullopt where it reaches further than from a layer to those near it.
  std::optional<Folded> folded(const AssignmentProblem::Edge& edge) const;
  /// False where edges have no place.
  bool add_edges();

  /// What an edge between these stands for; 0 where there is none.
  int times_of_edge(int a, int b) const;
  bool is_left_out(int node) const;
  bool is_in_cycle(int node) const;
  /// How many of the whole's nodes it stands for.
  int times(int node) const { return is_in_cycle(node) ? 1 + times_left_out_ : 1; }
  /// The node that is kept in the place of the whole's; RepeatedLayers::none where there is none.
  int representative(int node) const;

  const AssignmentProblem* whole_;
  RepeatedLayers repeated_;
  std::vector<int> place_of_;  ///< by the whole's node, that of its representative
  std::map<std::pair<int, int>, int> times_of_edge_;  ///< by its nodes, the lower one first
  int begin_ = 0;                                     ///< layers [begin, end) are left out
  int end_ = 0;
  int times_left_out_ = 0;  ///< the cycle's repetitions in these
  AssignmentProblem problem_;
};

}  // namespace autopar::assignment
