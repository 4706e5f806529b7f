#pragma once

#include <string>

#include "plan/plan_comparison.h"
#include "search/explanation.h"

namespace autopar::planner {

/// What `--explain` prints: a candidate a paragraph.
std::string explanation_text(const graph::Graph& graph, const search::Explanation& explanation);

/// What `--compare` prints.
std::string comparison_text(const plan::PlanFile& a, const plan::PlanFile& b,
                            const plan::PlanComparison& comparison);

}  // namespace autopar::planner
