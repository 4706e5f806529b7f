#pragma once

#include <optional>

#include "search/plan_task.h"

namespace autopar::search {

/// What a search that counts memory at rest alone has come to.
struct SearchAtRest {
  std::optional<JointPlan> plan;  ///< the cheapest so far whose shards fit
  bool is_answer = false;         ///< a search that counts all memory has no more to say
};

/// For problems so large that counting what is alive at every time would take most of the time
/// limit. Where a plan on coarser meshes leaves much of the devices' memory free, activations
/// hardly decide which plan is best: the problem without them is a fraction of the size, its bound
/// is one for all plans, and what it finds is the answer if its shards fit. No plan where memory is
/// scarce already for the one on coarser meshes, or that is not found. The task's problem is built
/// with CountedMemory::at_rest, and its options have `run_bytes`: sums alone do not tell what fits.
SearchAtRest search_at_rest(PlanTask task);

}  // namespace autopar::search
