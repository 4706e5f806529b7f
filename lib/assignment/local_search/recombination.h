#pragma once

#include <cstdint>
#include <vector>

#include "assignment/assignment_problem.h"
#include "assignment/repetition/folding.h"

namespace autopar::assignment {

/// Combines choices that were met: finds the cheapest within the limits that takes the strategy of
/// each node from one of them. Few strategies a node leave small tables for label search even where
/// those of the whole problem are too large. Usage must be compressed (usage_rows.h), costs at
/// least 0, and the problem must outlive it.
class Recombination {
 public:
  explicit Recombination(const AssignmentProblem& problem, const SolverParameters& parameters = {});

  /// Choices need not be within the limits; those that are kept always count as new.
  void add(const Choice& choice);
  void keep(const Choice& choice);
  /// Takes over what the folded problem's recombination has met. Layers of several kinds, each of
  /// them repeated in one of these choices, can then be mixed in any proportion.
  void start_from(const Recombination& folded, const Folding& folding);

  /// A choice of the newest strategies, and those of `best`, that costs less than the goal; empty
  /// where there is none or it was not found. `prices` are by time, of a unit of usage.
  Choice run(const Choice& best, Cost goal, const std::vector<double>& prices,
             const Deadline& deadline);

 private:
  /// The problem with the strategies of `best` and of the choices in the window.
  AssignmentProblem of_newest(const Choice& best) const;

  const AssignmentProblem& problem_;
  const SolverParameters parameters_;
  std::vector<std::vector<std::int64_t>> newest_;  ///< by strategy, the last choice that had it
  std::int64_t added_ = 0;                         ///< number of choices
  std::int64_t window_ = 1;                        ///< number of the newest that leave small tables
};

}  // namespace autopar::assignment
