#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "plan/pipeline_plan.h"

namespace autopar::plan {

/// plan.json without what a search reports: device, summary (what is predicted) and communication
/// for a person and for compare_plans (plan_comparison.h), and under "operators" an entry for every
/// operator and every stored tensor, stage after stage, in the form that load_pins (pins.h) reads.
/// "mesh" is that of the one stage; a pipeline has "stages" in its place, and "microbatches".
nlohmann::json plan_json(const PipelinePlan& plan, std::span<const CollectiveUse> collectives);

}  // namespace autopar::plan
