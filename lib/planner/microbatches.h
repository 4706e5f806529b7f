#pragma once

#include "planner/load_model.h"
#include "program/split_batch.h"

namespace autopar::planner {

/// The model cut into the plan's microbatches. Where the batch is no multiple of them, it is cut as
/// the next greater one would be: the model is read again with that. Throws Error where it cannot
/// be cut so.
program::SplitBatch split_model(const LoadedModel& model, const PlanOptions& plan);

/// Finds rules of libraries' operators, and with PlanOptions::discover of all others that have
/// none; warns of those that have none still.
void discover_missing_rules(const PlanOptions& plan, const graph::Graph& graph);

}  // namespace autopar::planner
