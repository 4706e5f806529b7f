#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "assignment/arc_costs.h"
#include "assignment/assignment_problem.h"
#include "assignment/deadline.h"
#include "assignment/local_search/usage_tree.h"
#include "assignment/parameters.h"

namespace autopar::assignment {

/// Large-neighbourhood search: from one choice to better ones within the limits. Usage must be
/// compressed (usage_rows.h), and the problem must outlive it.
class NeighbourhoodSearch {
 public:
  /// `start` need not be possible or within the limits. `costs` are the problem's, unscaled, where
  /// those from `most` on, more than any choice of interest, are as bad as impossible ones; they
  /// must outlive it.
  NeighbourhoodSearch(const AssignmentProblem& problem, const ArcCosts& costs,
                      const std::vector<int>& start, double most, unsigned seed,
                      const SolverParameters::Neighbourhoods& parameters = {});

  /// By time, what a unit of usage is worth: about the relaxation's prices.
  void set_prices(const std::vector<double>& prices);
  /// Goes on from another choice.
  void restart(const std::vector<int>& choice);
  /// Goes on until that many costs are looked at or the deadline comes.
  void advance(double work, const Deadline& deadline);

  /// The present choice.
  const std::vector<int>& choice() const { return choice_; }
  /// The cheapest choice within the limits that was met; empty where none was.
  const std::vector<int>& best() const { return best_; }

 private:
  /// A node that is set free; it touches no other free node but its parent and its children.
  struct Place {
    int node;
    int parent;                ///< its place; -1 at a root
    const ArcCosts::Arc* arc;  ///< from the node to its parent
    std::size_t values;        ///< where its strategies' values start
  };
  struct Reachable {
    int node;
    const ArcCosts::Arc* from;  ///< the free node's arc to it
  };
  /// A price on usage at one time.
  struct Bump {
    int time;
    double price;
  };

  bool is_over() const { return usage_.most() > 0; }
  double total_cost() const;
  void note_conflicts();
  void keep_if_best();

  void grow();
  void grow_tree(int root, std::size_t size);
  int root_near(int time);
  void set_free(int i, int parent, const ArcCosts::Arc* arc);
  bool is_in_the_way(int i) const;
  void sum_fixed_costs();

  void propose(double weight_of_prices, const std::vector<Bump>& bumps);
  double cost_of_places(bool is_proposal) const;
  double change_of_prices() const;
  bool swap();
  void reduce_cost();
  void reduce_usage();

  double uniform(double from, double to);
  std::size_t below(std::size_t count);

  const AssignmentProblem& problem_;
  const double most_;
  const ArcCosts& costs_;
  const SolverParameters::Neighbourhoods parameters_;
  std::mt19937_64 random_;
  std::vector<int> movable_;         ///< nodes with more than one strategy
  std::vector<double> price_until_;  ///< sums before each time

  std::vector<int> choice_;
  double cost_ = 0;
  UsageTree usage_;
  std::vector<int> conflicts_;  ///< nodes whose costs are as bad as impossible
  std::vector<int> best_;
  double best_cost_ = std::numeric_limits<double>::infinity();
  double repair_price_ = 0;
  std::int64_t rounds_ = 0;
  double work_ = 0;  ///< done so far

  std::vector<Place> places_;  ///< parents before children
  std::size_t leaves_ = 0;     ///< places that came along with the only node that they touch
  std::vector<int> place_;     ///< by node; -1 where it is kept
  std::vector<std::int64_t> touched_in_;  ///< by node, the round in which a neighbour was set free
  std::vector<int> touches_;              ///< and by how many
  std::vector<Reachable> frontier_;
  std::vector<double> fixed_;   ///< by place and strategy: its cost beside the nodes that are kept
  std::vector<double> priced_;  ///< what its usage pays
  std::vector<double> values_;
  std::vector<int> proposal_;  ///< by place
};

}  // namespace autopar::assignment
