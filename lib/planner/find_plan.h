#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "cost/cost_model.h"
#include "planner/load_model.h"
#include "search/search_plan.h"
#include "search/stages/search_pipeline.h"

namespace autopar::planner {

/// What Plan holds.
struct FoundPlan {
  std::shared_ptr<const LoadedModel> model;
  /// Inputs and outputs that microbatches cut, by name; none without microbatches.
  std::map<std::string, bundle::BatchInfo> ports;
  search::FoundPipeline pipeline;
  cost::DeviceModel device;  ///< the search's
};

/// PlanOptions as the search takes them.
struct SearchSetup {
  /// The same device on each mesh that is to be tried: one, or with "auto" all.
  std::vector<cost::CostModel> meshes;
  search::SearchOptions search;
  search::PipelineOptions pipeline;
};

/// Throws Error, all that is wrong with the options at once.
SearchSetup make_search_setup(const PlanOptions& options);

/// Finds rules of libraries' operators, and with PlanOptions::discover of all others that have
/// none; warns of those that have none still.
void discover_missing_rules(const PlanOptions& plan, const graph::Graph& graph);

/// The plan of one stage, and the problem that it solves. `setup` is fitted to the model
/// (device_fit.h).
search::SolvedPlan find_solved_plan(const LoadedModel& model, const SearchSetup& setup,
                                    const Progress& progress);

}  // namespace autopar::planner
