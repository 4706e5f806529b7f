#pragma once

#include <nlohmann/json.hpp>

#include "cost/device_model.h"
#include "plan/plan.h"
#include "program/pipeline_program.h"

namespace autopar::planner {

/// What flows through a plan, for a report:
///
///     strategies, op_types, shapes   texts, which operators name by their place; a strategy has
///     its
///                                    `kind` (plan/split_kind.h), too
///     operators                      of all stages in order, a list a field; seconds are of one
///                                    run, without communication
///     moves                          the slices and collectives of one microbatch in their order;
///                                    `from` and `to` are operators by their place, -1 for what is
///                                    stored; a reduction of an operator has it as both
///     stages                         their blocks (plan/layer_blocks.h), and edges, what one block
///                                    makes and another one reads
nlohmann::json flow_json(const plan::PipelinePlan& plan, const program::PipelineProgram& program,
                         const cost::DeviceModel& device);

}  // namespace autopar::planner
