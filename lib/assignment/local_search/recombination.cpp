// Optimal recombination (Aggarwal, Orlin and Tai 1997): the strategies of several choices make a
// small problem, whose optimum is no worse than any of them. The relaxation's choices are cheap and
// just over or below the limits, so that good choices are mixtures of them.

#include "assignment/local_search/recombination.h"

#include <algorithm>
#include <limits>

#include "assignment/elimination/label_search.h"

namespace autopar::assignment {

constexpr std::int64_t always = std::numeric_limits<std::int64_t>::max();

Recombination::Recombination(const AssignmentProblem& problem, const SolverParameters& parameters)
    : problem_(problem), parameters_(parameters), window_(parameters.recombination.first_window) {
  for (const auto& node : problem.nodes) newest_.emplace_back(node.costs.size(), 0);
}

void Recombination::add(const Choice& choice) {
  ++added_;
  for (std::size_t i = 0; i < choice.size(); ++i) {
    std::int64_t& newest = newest_[i][choice[i]];
    newest = std::max(newest, added_);
  }
}

void Recombination::keep(const Choice& choice) {
  for (std::size_t i = 0; i < choice.size(); ++i) newest_[i][choice[i]] = always;
}

void Recombination::start_from(const Recombination& folded, const Folding& folding) {
  added_ = folded.added_;
  window_ = std::max(window_, added_);
  const std::vector<int>& places = folding.places();
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] != RepeatedLayers::none) newest_[i] = folded.newest_[places[i]];
}

Choice Recombination::run(const Choice& best, Cost goal, const std::vector<double>& prices,
                          const Deadline& deadline) {
  for (; !deadline.is_over(); window_ /= parameters_.recombination.shrinking_of_window) {
    const auto found =
        search_labels(of_newest(best), prices,
                      {.goal = goal,
                       .most_comparisons = parameters_.recombination.most_comparisons,
                       .deadline = deadline},
                      parameters_);
    if (found) {
      window_ += window_ / parameters_.recombination.growth_of_window + 1;
      return found->choice.value_or(Choice{});
    }
    if (window_ <= 1) break;
    // A window that is wider than what was met holds no more.
    window_ = std::min<std::int64_t>(window_, added_);
  }
  return {};
}

AssignmentProblem Recombination::of_newest(const Choice& best) const {
  AssignmentProblem met = problem_;
  for (std::size_t i = 0; i < met.nodes.size(); ++i) {
    auto& costs = met.nodes[i].costs;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      const bool is_best = !best.empty() && best[i] == static_cast<int>(s);
      if (!is_best && newest_[i][s] <= std::max<std::int64_t>(0, added_ - window_)) {
        costs[s] = impossible;
      }
    }
  }
  return met;
}

}  // namespace autopar::assignment
