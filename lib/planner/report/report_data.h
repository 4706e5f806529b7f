#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cost/device_model.h"
#include "plan/plan.h"
#include "runtime/span.h"

/// What a report shows, as one JSON: report/page/ has nothing to compute.
namespace autopar::planner {

struct ReportedProfile {
  std::string binding;  ///< empty of the only one
  double weight = 1;
  const plan::PipelinePlan* plan = nullptr;
  const cost::DeviceModel* device = nullptr;  ///< the search's
};

struct ReportedPlan {
  std::string model;    ///< its file's name
  nlohmann::json plan;  ///< plan.json
  std::vector<ReportedProfile> profiles;
  std::int64_t memory_limit_bytes = 0;
  std::span<const std::vector<runtime::Span>> measured{};  ///< by rank; or none
};

/// Kind "plan": `plan` is plan.json without its operators, and each of `profiles` has `flow`,
/// `memory`, `timeline`, `cost_by_type` and, where a run was measured, `measured_timeline` and
/// `measured_by_type`. Throws Error where what was measured has other ranks than the plan.
nlohmann::json report_data(const ReportedPlan& reported);

/// Kind "comparison": what `compare` tells in JSON.
nlohmann::json comparison_data(nlohmann::json comparison);

/// Kind "sizing": what `sizing_json` tells, of a model's file and what was assumed of its shapes.
nlohmann::json sizing_data(const std::string& model, const std::string& assumed,
                           nlohmann::json sizing);

}  // namespace autopar::planner
