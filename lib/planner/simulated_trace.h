#pragma once

#include <span>
#include <vector>

#include "cost/device_model.h"
#include "plan/plan.h"
#include "program/pipeline_program.h"
#include "runtime/span.h"

namespace autopar::planner {

/// A run of the plan as the cost model has it, in the form of a profile: by rank of the plan, from
/// time 0 on; those that are not among `ranks` have no spans.
std::vector<std::vector<runtime::Span>> simulated_spans(const plan::PipelinePlan& plan,
                                                        const program::PipelineProgram& program,
                                                        const cost::DeviceModel& device,
                                                        std::span<const int> ranks);

}  // namespace autopar::planner
