#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "cost/device_model.h"
#include "plan/plan.h"
#include "program/pipeline_program.h"

namespace autopar::planner {

/// What ranks need while one microbatch runs, for a report. `ranks`: of each its weights, the most
/// of values alive, what is kept for packing these, all together, and which of
/// `curves` is its own. A curve has
/// points of bytes, weights included, at seconds from the begin of the rank's first operator: at
/// most 1,000, each with the most bytes up to the next one.
nlohmann::json memory_json(const plan::PipelinePlan& plan, const program::PipelineProgram& program,
                           const cost::DeviceModel& device, std::int64_t limit_bytes);

}  // namespace autopar::planner
