#pragma once

#include <memory>
#include <vector>

#include "search/assignment_problem.h"
#include "search/neighbourhood_search.h"
#include "search/relaxation.h"
#include "search/stopwatch.h"

namespace autopar::search {

/// A relaxation and neighbourhood searches side by side, a thread each, that tell each other what
/// they find at the end of every round. Rounds are measured in work, not in time, so that the same
/// seed gives the same answer.
class Portfolio {
 public:
  /// `goal` is a cost that choices have to stay below. `start` may be empty.
  Portfolio(const AssignmentProblem& problem, Cost goal, std::vector<double> prices,
            std::vector<int> start, int threads, unsigned seed);

  /// Goes on until the bound meets the cheapest choice or the goal, nothing has got better for some
  /// rounds, or the deadline comes.
  void run(const Deadline& deadline);

  bool is_done() const { return bound() >= goal(); }
  Cost bound() const { return relaxation_.bound(); }
  /// What a better choice has to stay below.
  Cost goal() const { return std::min(goal_, cost_); }
  /// The cheapest within the limits; empty where none was found.
  const std::vector<int>& choice() const { return choice_; }
  Cost cost() const { return cost_; }
  /// Takes over a choice that is within the limits, where it is cheaper.
  void offer(const std::vector<int>& choice);
  Relaxation& relaxation() { return relaxation_; }

 private:
  void run_round(const Deadline& deadline);
  void exchange();
  void start_searches();

  const AssignmentProblem& problem_;
  const Cost goal_;
  const int threads_;
  const unsigned seed_;
  Relaxation relaxation_;
  std::vector<std::unique_ptr<NeighbourhoodSearch>> searches_;
  std::vector<int> choice_;
  Cost cost_ = impossible;
  double work_ = 0;  ///< of a round and thread
  int rounds_ = 0;
};

}  // namespace autopar::search
