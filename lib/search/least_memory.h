#pragma once

#include "assignment/least_peak.h"
#include "search/plan_task.h"

namespace autopar::search {

/// Throws NothingFits, which names the least memory known, where even that choice does not fit.
void require_to_fit(const PlanTask& task, const assignment::LeastPeak& least);

/// The choice that needs least memory, whatever it costs; weights stay within a fair share where
/// that is asked for. Throws NothingFits where the time or an interruption let none be found.
assignment::LeastPeak find_least_memory(const PlanTask& task, Incumbent& incumbent);

}  // namespace autopar::search
