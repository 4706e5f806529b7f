#include "search/least_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/interruption.h"
#include "search/operator_bound.h"

namespace autopar::search {

namespace {

/// The part of the time left for the least peak.
constexpr double share_of_least_peak = 0.7;
/// The least time for it: without it there is no plan at all. A small model needs far less.
constexpr double least_seconds_for_a_plan = 10;
/// Sums above the least, as a part of it, whose cheapest plans are tried too.
constexpr double slacks[] = {0.0, 0.02, 0.05};

std::string in_mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB ({} bytes)", static_cast<double>(bytes) / 1048576.0, bytes);
}

/// A first Ctrl-C lets it end, since without it there is no plan at all; a second one does not.
std::optional<assignment::LeastPeak> least_peak_of(const PlanTask& task,
                                                   const assignment::AssignmentProblem& problem,
                                                   int first) {
  const InterruptionReprieve reprieve;
  return assignment::find_least_peak(
      problem, first, static_cast<int>(problem.usage_limits.size()),
      {.time_limit_seconds =
           std::max(least_seconds_for_a_plan, share_of_least_peak * task.seconds_left()),
       .threads = task.options.threads});
}

/// The choice whose shards need least among those of the least summed peak, or a little more: the
/// cheapest ones communicate less, and shards' arenas are packed differently.
std::vector<int> least_to_pack(const PlanTask& task, PlanProblem built,
                               const assignment::LeastPeak& least, int first,
                               Incumbent& incumbent) {
  std::vector<int> best = carried_over(built, least.choice, task.built);
  const auto packed = [&](const std::vector<int>& choice) {
    return choice.empty() ? std::numeric_limits<std::int64_t>::max()
                          : plan_of(task, choice).predicted.peak_bytes;
  };
  auto& limits = built.problem.usage_limits;
  incumbent.starts = {least.choice};
  double least_seconds = least_seconds_for_a_plan;
  for (const double slack : slacks) {
    const auto limit = static_cast<std::int64_t>((1 + slack) * static_cast<double>(least.peak));
    std::fill(limits.begin() + first, limits.end(), limit);
    const assignment::Solution solution =
        solve_exactly(task, built.problem, incumbent, std::exchange(least_seconds, 0));
    if (solution.choice.empty()) continue;
    std::vector<int> cheapest = carried_over(built, solution.choice, task.built);
    if (packed(cheapest) <= packed(best)) best = std::move(cheapest);
  }
  return best;
}

}  // namespace

assignment::LeastPeak find_least_memory(const PlanTask& task, Incumbent& incumbent) {
  // Which sums are worth counting depends on the limit. Here it is decided for one and the same,
  // whatever was asked for, so that the least that is named is found again when it is asked for.
  SearchOptions options = task.options;
  if (options.memory.kind == MemoryPolicy::Kind::bytes) {
    options.memory.bytes = bytes_on_one_device(task.stage.graph) / task.cost.mesh().num_devices();
  }
  const int first = options.memory.kind == MemoryPolicy::Kind::fair ? 1 : 0;
  PlanProblem built = build_plan_problem(task.stage.graph, task.cost, options, task.stage.received);
  auto least = least_peak_of(task, built.problem, first);
  if (least) least->choice = least_to_pack(task, std::move(built), *least, first, incumbent);
  if (!least || least->choice.empty()) {
    const char* const end = was_interrupted() ? "interruption" : "time limit";
    throw NothingFits(
        fmt::format("nothing fits a memory limit of {} a device, as far as the {} let see: raise "
                    "--memory or give the search more time",
                    in_mebibytes(task.limit()), end),
        std::numeric_limits<std::int64_t>::max(), false);
  }
  return *least;
}

void require_to_fit(const PlanTask& task, const assignment::LeastPeak& least) {
  const std::int64_t peak = plan_of(task, least.choice).predicted.peak_bytes;
  if (peak <= task.limit()) return;
  throw NothingFits(
      fmt::format("nothing fits a memory limit of {} a device: the smallest known to do is {}: "
                  "raise --memory or add devices",
                  in_mebibytes(task.limit()), in_mebibytes(peak)),
      peak, least.lower_bound > task.limit());
}

}  // namespace autopar::search
