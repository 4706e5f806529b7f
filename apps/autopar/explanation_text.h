#pragma once

#include <string>

#include "search/explanation.h"
#include "search/plan_comparison.h"

namespace autopar {

/// What `--explain` prints: a candidate a paragraph.
std::string explanation_text(const graph::Graph& graph, const search::Explanation& explanation);

/// What `--compare` prints.
std::string comparison_text(const search::PlanFile& a, const search::PlanFile& b,
                            const search::PlanComparison& comparison);

}  // namespace autopar
