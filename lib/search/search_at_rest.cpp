#include "search/search_at_rest.h"

#include <algorithm>
#include <utility>

#include "search/first_plans.h"

namespace autopar::search {

using assignment::Cost;

namespace {

/// The part of the memory limit that the first plan may need, so that better ones will fit, too.
constexpr double most_of_limit = 0.5;
/// The part of the memory limit that a plan may need beside what is at rest to count as mostly
/// that.
constexpr double most_beside = 0.1;

/// Solves, each under a lower limit at rest than the one before.
constexpr int most_attempts = 3;
/// The part of the time left for a solve that may be followed by one under a lower limit.
constexpr double share_of_attempt = 0.5;
/// The part of the time left for the last solve, whose plan mostly is the answer.
constexpr double share_of_last = 0.95;

std::int64_t bytes_at_rest(const PlanTask& task, const std::vector<int>& choice) {
  return assignment::usage_over_time(task.built.problem, choice).front();
}

bool is_roomy(std::int64_t peak, std::int64_t limit) {
  return static_cast<double>(peak) <= most_of_limit * static_cast<double>(limit);
}

/// Whether a plan that uses all of the limit at rest may lack memory for its activations.
bool may_exceed(const PlanTask& task) {
  return !is_roomy(task.built.problem.usage_limits.front(), task.limit());
}

}  // namespace

bool is_mostly_at_rest(const PlanTask& task, std::int64_t peak, std::int64_t at_rest) {
  return static_cast<double>(peak - at_rest) <= most_beside * static_cast<double>(task.limit());
}

bool is_roomy(const JointPlan& plan, std::span<const Profile> profiles,
              const SearchOptions& options) {
  const std::int64_t limit = limit_of(options.memory, profiles.front().cost->device());
  return is_roomy(plan.predicted.peak_bytes, limit);
}

AtRest improve_at_rest(const PlanTask& task, Incumbent& incumbent) {
  AtRest found;
  assignment::AssignmentProblem problem = task.built.problem;
  std::vector<std::int64_t>& limits = problem.usage_limits;
  std::fill(limits.begin() + 1, limits.end(), assignment::no_limit);
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    if (task.seconds_left() <= incumbent.seconds_to_predict) break;
    const bool is_last = attempt + 1 == most_attempts || !may_exceed(task);
    const assignment::Solution solution = solve_exactly(
        task, problem, incumbent, {.share = is_last ? share_of_last : share_of_attempt});
    if (attempt == 0) found.bound = bound_of(solution);
    if (solution.choice.empty()) break;
    found.excess = solution.cost < incumbent.cost ? consider(task, solution.choice, incumbent) : 0;
    if (found.excess <= 0) break;
    limits.front() = bytes_at_rest(task, solution.choice) - found.excess;
    incumbent.starts.push_back(solution.choice);
  }
  return found;
}

SearchAtRest search_at_rest(PlanTask task) {
  if (!assignment::may_be_within_limits(task.built.problem)) return {};
  Incumbent best;
  start_from_coarser(task, best);
  if (best.starts.empty()) return {};
  const std::vector<int> start = best.starts.front();
  std::int64_t peak = 0;
  if (task.coarser != nullptr) {  // refined it needs as much, about
    peak = task.coarser->predicted.peak_bytes;
    best.seconds_to_predict = task.coarser->report.predict_seconds;
  } else {
    peak = task.limit() + consider(task, start, best);
  }
  AtRest found{.excess = 1};
  if (is_roomy(peak, task.limit()) || is_mostly_at_rest(task, peak, bytes_at_rest(task, start)))
    found = improve_at_rest(task, best);
  if (best.choice.empty()) consider(task, start, best);
  if (best.choice.empty()) return {};
  const Cost bound = std::max(found.bound, bound_of_operators(task));
  return {answer_of(std::move(task), std::move(best), bound), found.excess <= 0};
}

}  // namespace autopar::search
