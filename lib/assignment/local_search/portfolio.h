#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/deadline.h"
#include "assignment/incumbent.h"
#include "assignment/local_search/neighbourhood_search.h"
#include "assignment/local_search/recombination.h"
#include "assignment/parameters.h"
#include "assignment/patience.h"
#include "assignment/relaxation/relaxation.h"

namespace autopar::assignment {

/// A relaxation and neighbourhood searches side by side, a thread each, which exchange prices and
/// choices after every round. Rounds are measured in deterministic work, so that the same seed
/// gives the same answer.
class Portfolio {
 public:
  /// Only choices that cost less than `goal` are looked for. `starts` may be over the limits.
  Portfolio(const AssignmentProblem& problem, Cost goal, std::vector<double> prices,
            std::vector<std::vector<int>> starts, double cost_elsewhere, int threads, unsigned seed,
            const SolverParameters& parameters = {});

  /// Runs until it is done or the deadline comes or, with `until_stuck`, nothing has improved for
  /// some rounds. Counts work on the deadline's clock. False where the rounds were over before.
  bool run(const Deadline& deadline, const Patience& patience, bool until_stuck,
           int rounds = std::numeric_limits<int>::max());
  /// Lets the relaxation and the searches that are stuck go on.
  void perturb();

  /// Whether the bound meets the goal, or the gap is small enough.
  bool is_done(const Patience& patience) const;
  Cost bound() const { return std::max(raised_bound_, relaxation_.bound()); }
  /// Takes over a bound that is proven elsewhere.
  void raise_bound(Cost bound) { raised_bound_ = std::max(raised_bound_, bound); }
  /// The time of the last round.
  double seconds_of_round() const { return seconds_of_round_; }
  /// An estimate of the work of a relaxation until it is stuck.
  double seconds_to_relax() const;
  /// A better choice costs less.
  Cost goal() const { return std::min(goal_, cost_); }
  /// The cheapest within the limits; empty where none was found.
  const std::vector<int>& choice() const { return choice_; }
  Cost cost() const { return cost_; }
  /// Takes over a choice where it is cheaper and within the limits.
  void offer(const std::vector<int>& choice);
  /// The same, with the bound of the choices below the goal.
  void offer(const Incumbent& below_goal, Cost goal);
  Incumbent incumbent() const { return make_incumbent(choice_, cost_, bound()); }
  Relaxation& relaxation() { return relaxation_; }

 private:
  void run_round(const Deadline& deadline);
  void take_what_was_found();
  void guide_searches();
  void recombine(const Deadline& deadline);
  void start_searches();

  const AssignmentProblem& problem_;
  const Cost goal_;
  const int threads_;
  const unsigned seed_;
  const std::vector<std::vector<int>> starts_;
  const SolverParameters parameters_;
  Relaxation relaxation_;
  Recombination recombination_;
  std::optional<ArcCosts> costs_;  ///< the searches'
  std::vector<std::unique_ptr<NeighbourhoodSearch>> searches_;
  std::vector<int> choice_;
  Cost cost_ = impossible;
  Cost raised_bound_ = 0;
  const double work_;  ///< of a round and thread
  double seconds_of_round_ = 0;
  int rounds_ = 0;
  int pause_ = 1;  ///< rounds from one recombination to the next
  int rounds_to_recombination_ = 1;
  int idle_rounds_ = 0;  ///< since a better choice was found
  int apart_until_ = 0;  ///< the round in which the first search joins the others again
};

}  // namespace autopar::assignment
