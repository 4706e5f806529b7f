#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "bundle/collective_total.h"
#include "graph/onnx/onnx_import.h"
#include "graph/tail.h"
#include "search/stages/search_pipeline.h"

namespace autopar::planner {

struct FoundPlan;  // find_plan.h

/// "1.2 ms", "34 us".
std::string in_seconds(double seconds);
/// "1.5 GiB".
std::string in_bytes(std::int64_t bytes);

/// "over mesh axis 0,1", or "to the next stage" where there is none.
std::string way_text(const std::vector<int>& mesh_axes);

/// "batch 1, sequence 128, total = past + sequence = 256".
std::string assumed_text(const graph::Assumptions& assumed);
/// The line that tells of it; empty where nothing was assumed.
std::string assumed_line(const graph::Assumptions& assumed);
/// The line that tells which outputs take an input's place in the next step; empty without any.
std::string states_line(const graph::Graph& graph);
/// "proven optimal, gap 0 %", "best found, no plan is below 1.2 ms, gap 3.0 %".
std::string certificate(double cost_seconds, const search::SearchReport& report);
/// Meshes, memory, cost and bound of a plan, and one device for comparison; a line for each of
/// several profiles.
std::string plan_headline(const FoundPlan& found);
/// "stage 1: ranks 2-3, mesh 2, 120 operators, 3.2 ms a microbatch and 10 us to the next".
std::string stage_headline(const plan::PipelinePlan& plan, std::size_t stage);
/// What rank 0 computes on its host behind all ranks.
std::string tail_text(const graph::TailSummary& tail);
/// A line for each kind of collective.
std::string collectives_table(const std::vector<bundle::CollectiveTotal>& collectives);

/// Calls `make`, which writes JSON. Throws Error where a name out of a file is not UTF-8.
template <typename Make>
auto json_text(const Make& make) {
  try {
    return make();
  } catch (const nlohmann::json::type_error&) {  // what is read is checked elsewhere
    fail("a name in the model, or its file's, is not UTF-8, as JSON needs it; rename it");
  }
}

}  // namespace autopar::planner
