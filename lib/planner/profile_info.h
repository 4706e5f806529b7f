#pragma once

#include <map>
#include <string>

#include "bundle/meta_info.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "program/pipeline_program.h"

namespace autopar::planner {

/// What meta-info.json says of one profile, but for its binding and weight. `whole` is the model
/// for the whole batch, whose inputs and outputs `batch` cuts into the plan's microbatches.
bundle::ProfileInfo profile_info(const graph::Graph& whole,
                                 const std::map<std::string, bundle::BatchInfo>& batch,
                                 const plan::PipelinePlan& plan,
                                 const program::PipelineProgram& program);

}  // namespace autopar::planner
