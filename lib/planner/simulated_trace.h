#pragma once

#include <vector>

#include "cost/device_model.h"
#include "plan/pipeline_plan.h"
#include "runtime/trace.h"

namespace autopar::planner {

/// A run of the plan as the cost model has it, in the form of a profile: by rank, from time 0 on.
/// A plan for more than 64 ranks has those of the first rank of each stage alone.
std::vector<std::vector<runtime::Span>> simulated_spans(const plan::PipelinePlan& plan,
                                                        const cost::DeviceModel& device);

}  // namespace autopar::planner
