#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "runtime/span.h"

namespace autopar::planner {

/// What a rank stands for in a timeline: `last` is itself, or the last of ranks that do the same.
struct TimelineRank {
  int rank = 0;
  int last = 0;
  int stage = 0;
};

/// A run for a report: `lanes`, one for each rank and queue that works, with begins and durations
/// in microseconds from the run's begin on, and operators by their place in `names`. A run of more
/// than 20,000 spans has neighbours of a lane told as one, and says under `joined` how many.
nlohmann::json timeline_json(std::span<const std::vector<runtime::Span>> by_rank,
                             std::span<const TimelineRank> ranks);

/// Seconds by operator type, most first: the mean over the ranks of each stage, of all stages
/// together.
nlohmann::json type_costs_json(std::span<const std::vector<runtime::Span>> by_rank,
                               std::span<const TimelineRank> ranks);

}  // namespace autopar::planner
