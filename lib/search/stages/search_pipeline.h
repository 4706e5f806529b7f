#pragma once

#include <optional>
#include <span>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "search/search_options.h"
#include "search/search_report.h"

namespace autopar::search {

struct PipelineOptions {
  int stages = 0;  ///< 0: whatever is best
  int microbatches = 1;
  plan::Objective objective = plan::Objective::latency;
  /// Every stage's mesh; otherwise each has the devices and the view that serve best
  /// (logical_meshes.h).
  std::optional<sharding::DeviceMesh> mesh;
  int layers = 0;  ///< between which stages may be cut; 0: chosen (layers.h)
  /// Plans that are better than the answer by no more than this part of its cost may be missed; 0
  /// for the best. The report's lower bound allows for it.
  double epsilon = 0.002;
};

struct FoundPipeline {
  plan::PipelinePlan plan;
  SearchReport report;
};

/// The best pipeline of stages: cuts between layers, devices of each stage, and the strategies of
/// its operators (Alpa, OSDI 22, section 5, with transfers in the objective).
///
/// `whole` is the model as the user gave it, `microbatch` its graph for one of `microbatches` (the
/// same graph where it is 1), `meshes` those on which one stage of all devices is searched (as
/// search_meshes takes them). Where the number of stages is open, the plan of the whole model in
/// one stage and one run is a candidate, and is taken where none is better. SearchOptions' time
/// limit is for all together, its microbatches are not looked at; when it is over, or after Ctrl-C,
/// the best so far is returned.
///
/// The report's lower bound holds for every sequence of runs of the layers on submeshes, and where
/// the number of stages is open for `meshes` with the whole model.
///
/// Throws Error, one line, for more stages than devices or layers, for devices that cannot be cut
/// into so many stages, and where a stage fits nowhere.
FoundPipeline search_pipeline(const graph::Graph& whole, const graph::Graph& microbatch,
                              std::span<const cost::CostModel> meshes, const SearchOptions& options,
                              const PipelineOptions& pipeline);

}  // namespace autopar::search
