#pragma once

#include <optional>
#include <vector>

#include "cost/cost_model.h"
#include "plan/pipeline_plan.h"
#include "planner/planner.h"
#include "search/search_plan.h"
#include "sharding/device_mesh.h"

namespace autopar::planner {

/// PlanOptions as the search takes them.
struct SearchSetup {
  /// The same device on each mesh that is to be tried: one, or with "auto" all.
  std::vector<cost::CostModel> meshes;
  search::SearchOptions search;
  std::optional<int> stages;  ///< nullopt: whatever is best
  plan::Objective objective = plan::Objective::latency;
  std::optional<sharding::DeviceMesh> stage_mesh;  ///< of every stage; nullopt: whatever is best
};

/// Throws Error, all that is wrong with the options at once.
SearchSetup make_search_setup(const PlanOptions& options);

}  // namespace autopar::planner
