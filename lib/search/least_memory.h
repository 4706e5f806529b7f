#pragma once

#include <cstdint>
#include <vector>

#include "search/plan_task.h"

namespace autopar::search {

/// A choice that needs little memory.
struct LeastMemory {
  std::vector<int> choice;
  std::int64_t bytes = 0;        ///< that its shards need
  std::int64_t lower_bound = 0;  ///< no choice needs less, as the search counts it
};

/// Throws NothingFits, which names the least memory known, where even that choice does not fit.
void require_to_fit(const PlanTask& task, const LeastMemory& least);

/// The choice that needs least memory, whatever it costs; weights stay within a fair share where
/// that is asked for. Throws NothingFits where the time or an interruption let none be found.
LeastMemory find_least_memory(const PlanTask& task, Incumbent& incumbent);

}  // namespace autopar::search
