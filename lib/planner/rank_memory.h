#pragma once

#include <cstdint>
#include <string>

namespace autopar::planner {

struct FoundPlan;  // find_plan.h

/// What the rank that needs most memory needs it for, at its peak, in bytes.
struct RankMemory {
  std::int64_t weights = 0;
  std::int64_t states = 0;       ///< what a step is given of them (graph::State), such as caches
  std::int64_t activations = 0;  ///< all else, what a step makes of its states among it
  std::int64_t peak() const { return weights + states + activations; }
};

/// In the profile that needs most. A tail's weights are among them where the peak has them.
RankMemory rank_memory(const FoundPlan& found);

/// "1.0 GiB at the peak: 0.7 GiB of weights, 0.1 GiB of states, 0.2 GiB of activations"; without
/// states where there are none.
std::string rank_memory_text(const RankMemory& memory);

}  // namespace autopar::planner
