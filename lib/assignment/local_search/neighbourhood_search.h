#pragma once

#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "assignment/local_search/free_trees.h"
#include "assignment/local_search/regions.h"
#include "assignment/local_search/tree_moves.h"
#include "assignment/local_search/usage_tree.h"

namespace autopar::assignment {

/// Large-neighbourhood search from one choice to better ones within the limits. Usage must be
/// compressed (usage_rows.h), and the problem must outlive it.
class NeighbourhoodSearch {
 public:
  /// `start` need not be possible or within the limits. `costs` are the problem's, unscaled, and
  /// must outlive it; those of at least `most` count as impossible.
  NeighbourhoodSearch(const AssignmentProblem& problem, const ArcCosts& costs, const Choice& start,
                      double most, unsigned seed, const SolverParameters& parameters = {});

  /// By time, of a unit of usage; the relaxation's are good ones.
  void set_prices(const std::vector<double>& prices);
  /// Goes on from another choice.
  void restart(const Choice& choice);
  /// Goes on until that many costs are looked at or the deadline comes.
  void advance(double work, const Deadline& deadline);

  /// The present choice.
  const Choice& choice() const { return choice_; }
  /// The cheapest choice within the limits that was met; empty where none was.
  const Choice& best() const { return best_; }

 private:
  bool is_over() const { return usage_.most() > 0; }
  double total_cost() const;
  void note_conflicts();
  bool is_in_conflict(int i) const;
  int draw_conflict();
  void keep_if_best();
  void settle_best();

  void set_trees_free();
  int root_near(int time);
  bool move_to(const std::vector<int>& strategies);
  bool move_to(int i, int strategy);
  void reduce_cost();
  void reduce_usage();
  void move_region(const Deadline& deadline);
  double work_of_regions() const {
    return regions_.seconds() * all_parameters_.work.costs_a_second;
  }
  void count(const LookedAt& looked_at) {
    work_ += looked_at.costs + parameters_.work_of_arc * looked_at.arcs;
  }

  double uniform(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random_);
  }
  std::size_t below(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }

  const AssignmentProblem& problem_;
  const double most_;
  const ArcCosts& costs_;
  const SolverParameters all_parameters_;
  const SolverParameters::Neighbourhoods& parameters_ = all_parameters_.neighbourhoods;
  std::mt19937_64 random_;
  std::vector<int> movable_;         ///< nodes with more than one strategy
  std::vector<double> price_until_;  ///< sums before each time

  Choice choice_;
  double cost_ = 0;
  UsageTree usage_;
  std::vector<int> conflicts_;  ///< nodes with a cost that counts as impossible
  Choice best_;
  double best_cost_ = std::numeric_limits<double>::infinity();
  bool is_best_present_ = false;           ///< not in `best_` yet: the present one, changes undone
  std::vector<std::pair<int, int>> undo_;  ///< changes since then: a node and what it had
  double work_of_conflicts_ = 0;           ///< costs between two looks for all of them
  double repair_price_ = 0;
  double work_ = 0;  ///< done so far

  Regions regions_;
  FreeTrees trees_;  ///< of this round, with the next three by place
  TreeCosts tree_costs_;
  std::vector<int> present_;
  std::vector<int> proposal_;
};

}  // namespace autopar::assignment
