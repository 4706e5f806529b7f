#include "assignment/local_search/portfolio.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "base/progress.h"

namespace autopar::assignment {

namespace {

double work_of_round(const SolverParameters::Portfolio& tuning, double work_of_step) {
  const double step = tuning.least_work_of_step + work_of_step;
  return std::min(tuning.steps_a_round * step, std::max(tuning.most_work_of_round, step));
}

/// How much a choice uses over the limits, all times together; more than any other where it is
/// impossible.
double excess_of(const AssignmentProblem& problem, const Choice& choice) {
  if (cost_of(problem, choice) >= impossible) return std::numeric_limits<double>::infinity();
  const std::vector<std::int64_t> usage = usage_over_time(problem, choice);
  double excess = 0;
  for (std::size_t t = 0; t < problem.usage_limits.size(); ++t) {
    excess += static_cast<double>(std::max<std::int64_t>(0, usage[t] - problem.usage_limits[t]));
  }
  return excess;
}

}  // namespace

Portfolio::Portfolio(const Subproblem& component, int threads, unsigned seed,
                     const SolverParameters& parameters)
    : component_(component),
      threads_(threads),
      seed_(seed),
      parameters_(parameters),
      relaxation_(component.problem, component.prices, component.patience.cost_elsewhere,
                  parameters.relaxation),
      recombination_(component.problem, parameters),
      work_(work_of_round(parameters_.portfolio, relaxation_.work_of_step())) {
  for (const auto& start : component.starts) {
    offer(start);
    recombination_.keep(start);
  }
}

bool Portfolio::is_done(const Patience& patience) const {
  if (bound() >= goal()) return true;
  if (best_.choice.empty() || !patience.end.is_over()) return false;
  const double whole = static_cast<double>(bound()) + patience.cost_elsewhere;
  const double gap = static_cast<double>(goal() - bound()) + patience.gap_elsewhere;
  return gap <= patience.small_gap * whole;
}

double Portfolio::seconds_to_relax() const {
  return parameters_.portfolio.steps_to_relax *
         (parameters_.portfolio.least_work_of_step + relaxation_.work_of_step()) /
         parameters_.work.costs_a_second;
}

void Portfolio::begin_thriftily() {
  if (is_known(goal())) return;
  // The searches do not begin with it: what the prices lead to soon costs far less.
  const Choice choice = relaxation_.thrifty_choice(component_.deadline);
  if (choice.empty()) return;
  assignment::offer(component_.problem, choice, thrifty_);
  if (component_.is_root) spdlog::debug("round 0: bound {}, cost {},", bound(), thrifty_.cost);
}

void Portfolio::start_from(Portfolio& folded, const Folding& folding) {
  recombination_.start_from(folded.recombination_, folding);
  if (!folded.choice().empty()) {
    const Choice choice = folding.unfolded(folded.choice());
    offer(choice);
    recombination_.keep(choice);
    start_ = choice;
  }
  folded.relaxation_.settle(component_.deadline);
  relaxation_.start_from(folded.relaxation_, folding);
  relaxation_.settle(component_.deadline);
}

bool Portfolio::run(const Deadline& deadline, bool until_stuck, int rounds) {
  for (; !deadline.is_over() && !is_done(component_.patience); --rounds) {
    if (rounds == 0) return false;
    const Cost before = cost();
    const Stopwatch stopwatch;
    run_round(deadline);
    take_what_was_found();
    recombine(deadline);
    seconds_of_round_ = stopwatch.seconds();
    idle_rounds_ = cost() < before ? 0 : idle_rounds_ + 1;
    guide_searches();
    tell_gap();
    if (component_.is_root) {
      spdlog::debug("round {}: bound {}, cost {}, {:.1f} s left", rounds_, bound(), cost(),
                    deadline.left());
    }
    if (until_stuck && relaxation_.is_stuck() &&
        idle_rounds_ >= parameters_.portfolio.most_idle_rounds)
      break;
  }
  return true;
}

void Portfolio::tell_gap() const {
  if (choice().empty()) return;
  const Patience& patience = component_.patience;
  const double gap = static_cast<double>(cost() - bound()) + patience.gap_elsewhere;
  const double whole = static_cast<double>(cost()) + patience.cost_elsewhere;
  if (component_.is_root && whole > 0) note_gap(gap / whole);
}

void Portfolio::run_round(const Deadline& deadline) {
  const bool is_relaxing = !relaxation_.is_stuck();
  const std::size_t busy =
      std::min<std::size_t>(searches_.size(), std::max(1, threads_ - (is_relaxing ? 1 : 0)));
  const auto relax = [&] {
    if (is_relaxing) relaxation_.advance(work_, goal(), deadline);
  };
  if (threads_ == 1) {
    relax();
    for (std::size_t k = 0; k < busy; ++k) searches_[k]->advance(work_, deadline);
  } else {
    std::vector<std::jthread> threads;
    for (std::size_t k = 0; k < busy; ++k) {
      threads.emplace_back([&, k] { searches_[k]->advance(work_, deadline); });
    }
    relax();
  }
  const std::size_t parts = busy + (is_relaxing ? 1 : 0);
  const double parts_in_turn = threads_ == 1 ? static_cast<double>(parts) : 1;
  deadline.count(parts_in_turn * work_ / parameters_.work.costs_a_second);
}

void Portfolio::recombine(const Deadline& deadline) {
  for (const auto& choice : relaxation_.priced_choices()) recombination_.add(choice);
  for (const auto& search : searches_) recombination_.add(search->choice());
  if (--rounds_to_recombination_ > 0) return;
  const double seconds = work_ / parameters_.work.costs_a_second;
  const Deadline end = deadline.within_work(parameters_.portfolio.share_of_recombination * seconds *
                                            parameters_.portfolio.longest_pause);
  const auto choice = recombination_.run(best_.choice, goal(), relaxation_.prices(), end);
  if (!choice.empty()) offer(choice);
  // Less often where it did not help.
  const SolverParameters::Portfolio& tuning = parameters_.portfolio;
  pause_ = choice.empty() ? std::min(tuning.growth_of_pause * pause_, tuning.longest_pause) : 1;
  rounds_to_recombination_ = pause_;
}

void Portfolio::take_what_was_found() {
  ++rounds_;
  if (!relaxation_.choice().empty()) offer(relaxation_.choice());
  for (const auto& search : searches_) {
    if (!search->best().empty()) offer(search->best());
  }
}

void Portfolio::guide_searches() {
  const SolverParameters::Portfolio& tuning = parameters_.portfolio;
  if (searches_.empty()) {
    // The relaxation alone may close the gap.
    const bool is_large = tuning.steps_a_round * relaxation_.work_of_step() > work_;
    if (rounds_ >= tuning.rounds_before_searches || is_large || relaxation_.is_stuck()) {
      start_searches();
    }
    return;
  }
  if (idle_rounds_ % tuning.rounds_together == tuning.rounds_together - 1)
    apart_until_ = rounds_ + tuning.rounds_apart;
  for (std::size_t k = 0; k < searches_.size(); ++k) {
    searches_[k]->set_prices(relaxation_.prices());
    // The first diversifies for a while where nothing improves.
    const bool is_apart = k == 0 && rounds_ < apart_until_;
    const bool starts_apart = k == 0 && rounds_ + tuning.rounds_apart == apart_until_;
    if (best_.choice.empty() ? is_worth_restarting(k) : starts_apart) {
      searches_[k]->restart(relaxation_.priced_choice());
    } else if (!best_.choice.empty() && !is_apart && searches_[k]->best() != best_.choice) {
      searches_[k]->restart(best_.choice);
    }
  }
}

/// While no choice is within the limits: from time to time for every other search, and where the
/// relaxation has come nearer to the limits than the search.
bool Portfolio::is_worth_restarting(std::size_t search) const {
  if (rounds_ % parameters_.portfolio.rounds_apart == 0 && search % 2 == 0) return true;
  return excess_of(component_.problem, relaxation_.priced_choice()) <
         excess_of(component_.problem, searches_[search]->choice());
}

void Portfolio::start_searches() {
  const double most =
      is_known(goal())
          ? parameters_.portfolio.useless_over_goal * static_cast<double>(goal()) + 1
          : parameters_.portfolio.useless_over_bound * (static_cast<double>(bound()) + 1);
  costs_.emplace(component_.problem, 1, most);
  const Choice& start = !best_.choice.empty()        ? best_.choice
                        : !start_.empty()            ? start_
                        : !component_.starts.empty() ? component_.starts.front()
                                                     : relaxation_.priced_choice();
  for (int k = 0; k < threads_; ++k) {
    searches_.push_back(std::make_unique<NeighbourhoodSearch>(
        component_.problem, *costs_, start, most, seed_ + static_cast<unsigned>(k), parameters_));
    searches_.back()->set_prices(relaxation_.prices());
  }
}

}  // namespace autopar::assignment
