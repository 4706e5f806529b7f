#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "graph/stage_graph.h"
#include "plan/plan.h"
#include "search/pins.h"
#include "search/stages/layers.h"

namespace autopar::search {

/// Where each stage begins in a graph of the model for other shapes, and behind the last one the
/// number of nodes: the operators are in the stages in which `stage_of` has those of their names,
/// and those that it lacks in that of the next one. Throws Error where stages come to overlap, to
/// have no operator, or to part a state.
LayerCuts similar_cuts(const graph::Graph& graph, const graph::StageCutter& cutter,
                       const std::map<std::string, int>& stage_of, int stages);

/// A stage of another plan of the model.
struct OtherStage {
  cost::CostModel cost;  ///< on its mesh
  int first_rank = 0;
  std::vector<Pin> entries;  ///< for every operator and every stored tensor
};

/// similar_plan() for one microbatch of several stages: cut and planned as the other plan is, on
/// the same devices. Throws as both.
plan::PipelinePlan similar_pipeline(const graph::Graph& graph, std::span<const OtherStage> other);

}  // namespace autopar::search
