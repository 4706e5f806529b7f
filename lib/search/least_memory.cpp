#include "search/least_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "assignment/least_peak.h"
#include "base/interruption.h"
#include "search/operator_bound.h"

namespace autopar::search {

using assignment::LeastPeak;
using assignment::Solution;

namespace {

/// The part of the time left for the least peak.
constexpr double share_of_least_peak = 0.5;
/// The part for it of the time until the search must end, if that is more.
constexpr double late_share = 0.4;
/// Each search of a small problem ends by work, and has this time whatever the limit: so the least
/// that is named is found again where it is asked for.
constexpr double seconds_of_small = 10;
constexpr double work_seconds_of_small = 0.5;
/// Sums above the least, as a part of it, whose cheapest plans are tried too.
constexpr double slacks[] = {0.0, 0.02, 0.05};

std::string in_mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB ({} bytes)", static_cast<double>(bytes) / 1048576.0, bytes);
}

double least_seconds_of(const PlanTask& task) {
  return task.is_small() ? seconds_of_small : late_share * task.seconds_to_end();
}

/// `bytes` are unknown where there is no choice.
LeastMemory packed(const PlanTask& task, std::vector<int> choice, Incumbent& incumbent) {
  LeastMemory made{.choice = std::move(choice), .bytes = unknown_bytes};
  if (!made.choice.empty()) made.bytes = peak_of(plans_of(task, made.choice, incumbent));
  return made;
}

/// The choice whose shards need least among those of the least summed peak, or a little more: the
/// cheapest ones communicate less, and shards' arenas are packed differently.
LeastMemory least_to_pack(const PlanTask& task, PlanProblem built, const LeastPeak& least,
                          int first, Incumbent& incumbent) {
  LeastMemory best = packed(task, carried_over(built, least.choice, task), incumbent);
  auto& limits = built.problem.usage_limits;
  incumbent.starts = {least.choice};
  double least_seconds = least_seconds_of(task) - incumbent.seconds_to_predict;
  for (const double slack : slacks) {
    const double seconds =
        std::max(least_seconds, task.seconds_left() - incumbent.seconds_to_predict);
    if (seconds <= 0 && !best.choice.empty()) break;
    const auto limit = static_cast<std::int64_t>((1 + slack) * static_cast<double>(least.peak));
    std::fill(limits.begin() + first, limits.end(), limit);
    SolveTime time{.least_seconds = least_seconds};
    if (task.is_small())
      time.work_limit_seconds = work_seconds_of_small;
    else
      least_seconds = 0;  // the next ones have what is left
    const Solution solution = solve_exactly(task, built.problem, incumbent, time);
    if (solution.choice.empty()) continue;
    LeastMemory cheapest = packed(task, carried_over(built, solution.choice, task), incumbent);
    if (cheapest.bytes <= best.bytes) best = std::move(cheapest);
  }
  best.lower_bound = least.lower_bound;
  return best;
}

}  // namespace

void require_to_fit(const PlanTask& task, const LeastMemory& least) {
  if (least.bytes <= task.limit()) return;
  throw NothingFits(
      fmt::format("nothing fits a memory limit of {} a device: the smallest known to do is {}: "
                  "raise --memory or add devices",
                  in_mebibytes(task.limit()), in_mebibytes(least.bytes)),
      least.bytes, least.lower_bound > task.limit());
}

LeastMemory find_least_memory(const PlanTask& task, Incumbent& incumbent) {
  // Which sums are worth counting depends on the limit. Here it is decided for one and the same,
  // whatever was asked for, so that the least that is named is found again when it is asked for.
  SearchOptions options = task.options;
  if (options.memory.kind == MemoryPolicy::Kind::bytes)
    options.memory.bytes = bytes_on_one_device(task.profiles) / task.mesh().num_devices();
  const int first = options.memory.kind == MemoryPolicy::Kind::fair ? 1 : 0;
  PlanProblem built = build_plan_problem(task.profiles, options);
  std::optional<LeastPeak> least;
  std::optional<LeastPeak> beyond_share;  // sought where weights alone are more than a fair share
  {
    // A first Ctrl-C lets it end, since without it there is no plan at all; a second does not.
    const InterruptionReprieve reprieve;
    const auto least_from = [&](int row) {
      const double seconds =
          std::max(least_seconds_of(task), share_of_least_peak * task.seconds_left());
      return assignment::find_least_peak(
          built.problem, row, static_cast<int>(built.problem.usage_limits.size()),
          {.time_limit_seconds = seconds, .threads = task.options.threads});
    };
    least = least_from(first);
    if (!least && first > 0) beyond_share = least_from(0);
  }
  if (beyond_share) {
    LeastMemory beyond = packed(task, carried_over(built, beyond_share->choice, task), incumbent);
    if (!beyond.choice.empty()) {
      beyond.lower_bound = beyond_share->lower_bound;
      require_to_fit(task, beyond);
      throw NothingFits(
          fmt::format("nothing keeps each device's weights within a fair share, {}, as far as the "
                      "search let see: give --memory device",
                      in_mebibytes(task.built.problem.usage_limits.front())),
          unknown_bytes, false);
    }
  }
  if (least) {
    LeastMemory found = least_to_pack(task, std::move(built), *least, first, incumbent);
    if (!found.choice.empty()) return found;
  }
  const char* const end = was_interrupted() ? "interruption" : "time limit";
  throw NothingFits(
      fmt::format("nothing fits a memory limit of {} a device, as far as the {} let see: raise "
                  "--memory or give the search more time",
                  in_mebibytes(task.limit()), end),
      unknown_bytes, false);
}

}  // namespace autopar::search
