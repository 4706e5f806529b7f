#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "assignment/local_search/neighbourhood_search.h"
#include "assignment/local_search/recombination.h"
#include "assignment/relaxation/relaxation.h"
#include "assignment/subproblem.h"

namespace autopar::assignment {

/// A relaxation and neighbourhood searches side by side, a thread each, which exchange prices and
/// choices after every round. Rounds are measured in deterministic work, so that the same seed
/// gives the same answer.
class Portfolio {
 public:
  /// `component` must outlive it.
  Portfolio(const Subproblem& component, int threads, unsigned seed,
            const SolverParameters& parameters = {});

  /// Runs until it is done or the deadline comes or, with `until_stuck`, nothing has improved for
  /// some rounds. Counts work on the deadline's clock. False where the rounds were over before.
  bool run(const Deadline& deadline, bool until_stuck,
           int rounds = std::numeric_limits<int>::max());
  /// Rounds since a better choice was found.
  int idle_rounds() const { return idle_rounds_; }
  /// Lets the relaxation and the searches that are stuck go on.
  void perturb() {
    relaxation_.perturb();
    idle_rounds_ = 0;
  }

  /// Looks for a first choice within many limits before the first round, where none is known.
  void begin_thriftily();
  /// Begins with what the folded problem's portfolio has found.
  void start_from(Portfolio& folded, const Folding& folding);

  /// Whether the bound meets the goal, or the gap is small enough.
  bool is_done(const Patience& patience) const;
  /// The same for the component's patience, or its deadline has come.
  bool is_finished() const { return is_done(component_.patience) || component_.deadline.is_over(); }
  Cost bound() const { return std::max(best_.bound, relaxation_.bound()); }
  /// Takes over a bound that is proven elsewhere.
  void raise_bound(Cost bound) { best_.bound = std::max(best_.bound, bound); }
  /// The time of the last round.
  double seconds_of_round() const { return seconds_of_round_; }
  /// An estimate of the work of a relaxation until it is stuck.
  double seconds_to_relax() const;
  /// A better choice costs less.
  Cost goal() const { return std::min(component_.cutoff, cost()); }
  /// The cheapest within the limits; empty where none was found.
  const Choice& choice() const { return best_.choice; }
  Cost cost() const { return best_.cost; }
  /// Takes over a choice where it is cheaper and within the limits.
  void offer(const Choice& choice) { assignment::offer(component_.problem, choice, best_); }
  /// The same, with the bound of the choices below the goal.
  void offer(const Incumbent& below_goal, Cost goal) {
    if (!below_goal.choice.empty()) offer(below_goal.choice);
    raise_bound(std::min(below_goal.bound, goal));
  }
  Incumbent incumbent() const {
    const Incumbent& best = choice().empty() ? thrifty_ : best_;
    return make_incumbent(best.choice, best.cost, bound());
  }
  Relaxation& relaxation() { return relaxation_; }
  const Subproblem& component() const { return component_; }

 private:
  /// To whoever shows progress.
  void tell_gap() const;
  void run_round(const Deadline& deadline);
  void take_what_was_found();
  void guide_searches();
  void recombine(const Deadline& deadline);
  bool is_worth_restarting(std::size_t search) const;
  void start_searches();

  const Subproblem& component_;
  const int threads_;
  const unsigned seed_;
  const SolverParameters parameters_;
  Relaxation relaxation_;
  Recombination recombination_;
  std::optional<ArcCosts> costs_;  ///< the searches'
  std::vector<std::unique_ptr<NeighbourhoodSearch>> searches_;
  Incumbent thrifty_;  ///< for the answer where nothing better is found
  Choice start_;       ///< of the folded problem, within the limits or not
  Incumbent best_;     ///< its bound is what was proven elsewhere
  const double work_;  ///< of a round and thread
  double seconds_of_round_ = 0;
  int rounds_ = 0;
  int pause_ = 1;  ///< rounds from one recombination to the next
  int rounds_to_recombination_ = 1;
  int idle_rounds_ = 0;  ///< since a better choice was found
  int apart_until_ = 0;  ///< the round in which the first search joins the others again
};

}  // namespace autopar::assignment
