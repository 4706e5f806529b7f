#pragma once

#include <optional>
#include <span>

#include "search/plan_task.h"

namespace autopar::search {

/// What a search that counts memory at rest alone has come to.
struct SearchAtRest {
  std::optional<JointPlan> plan;  ///< the cheapest so far whose shards fit
  bool is_answer = false;         ///< a search that counts all memory has no more to say
};

/// Whether a plan of this peak, in bytes, needs little beside what it has at rest.
bool is_mostly_at_rest(const PlanTask& task, std::int64_t peak, std::int64_t at_rest);

/// Whether the plan leaves so much of the devices' memory free that others of the same model mostly
/// fit, too, if what they have at rest does.
bool is_roomy(const JointPlan& plan, std::span<const Profile> profiles,
              const SearchOptions& options);

/// What solves under a limit at rest alone have come to.
struct AtRest {
  assignment::Cost bound = 0;  ///< no plan costs less
  std::int64_t excess = 0;     ///< bytes by which the last plan exceeds the memory limit
};

/// Improves the incumbent by solves that limit what is at rest alone. That limit is the task's at
/// first, which makes the bound one for all plans, and is lowered by what shards exceed the memory
/// limit by.
AtRest improve_at_rest(const PlanTask& task, Incumbent& incumbent);

/// For problems so large that counting what is alive at every time would take most of the time
/// limit. Where a plan on coarser meshes leaves much of the devices' memory free, or needs it for
/// weights, activations hardly decide which plan is best: the problem without them is a fraction of
/// the size, its bound is one for all plans, and what it finds is the answer if its shards fit. No
/// plan where none fits. The task's problem is built with CountedMemory::at_rest, and its options
/// have `run_bytes`: sums alone do not tell what fits.
SearchAtRest search_at_rest(PlanTask task);

}  // namespace autopar::search
