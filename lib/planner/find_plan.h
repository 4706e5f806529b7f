#pragma once

#include <map>
#include <memory>
#include <string>

#include "bundle/meta_info.h"
#include "cost/device_model.h"
#include "planner/load_model.h"
#include "planner/search_setup.h"
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

/// The plan of one stage, and the problem that it solves. `setup` is fitted to the model
/// (device_fit.h).
search::SolvedPlan find_solved_plan(const LoadedModel& model, const SearchSetup& setup,
                                    const Progress& progress);

}  // namespace autopar::planner
