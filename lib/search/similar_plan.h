#pragma once

#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "search/pins.h"

namespace autopar::search {

/// The plan of a model for some shapes that another plan of the model, for other shapes, suggests:
/// what bears a name of `other` (an entry for every operator and every stored tensor, as plan.json
/// has them) lies and is split as there. An operator that `other` lacks, or that its strategy does
/// not fit any more, gets the cheapest one behind what is decided before it; a stored tensor lies
/// whole then. Nothing is searched: the same on every rank, in time linear in operators. Without
/// what the plan predicts. Throws Error for a constant without data that `other` lacks.
plan::Plan similar_plan(const graph::Graph& graph, const std::vector<Pin>& other,
                        const cost::CostModel& cost);

}  // namespace autopar::search
