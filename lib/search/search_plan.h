#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "search/memory_policy.h"
#include "search/partial_flow.h"
#include "search/pins.h"
#include "search/plan.h"

namespace autopar::search {

struct SearchOptions {
  MemoryPolicy memory;
  std::vector<Pin> pins;
  KeepPartial keep_partial = KeepPartial::where_it_may_save;  ///< anywhere if a pin asks for it
  double time_limit_seconds = 60;
  /// Bytes on the fullest rank, as the shards of a plan will need them. The search itself only sums
  /// what is alive; where this is given, it is this that the memory limit holds for.
  std::function<std::int64_t(const Plan&)> peak_bytes;
};

/// The best plan of the strategy space under the cost model. Throws Error where a pin names no
/// operator or leaves one without a strategy, and where nothing fits the memory limit (with the
/// smallest that is known to be enough). Operators without a rule are run replicated and named in
/// one warning.
Plan search_plan(const graph::Graph& graph, const cost::CostModel& cost,
                 const SearchOptions& options);

}  // namespace autopar::search
