#pragma once

#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "graph/graph.h"
#include "search/plan.h"

namespace autopar {

/// "1.2 ms", "34 us".
std::string in_seconds(double seconds);
/// "1.5 GiB".
std::string in_bytes(std::int64_t bytes);

/// Mesh, memory, cost and bound of a plan, and one device for comparison.
std::string plan_headline(const search::Plan& plan);
/// The headline and the collectives.
std::string plan_summary(const search::Plan& plan,
                         const std::vector<bundle::CollectiveTotal>& collectives);
/// A line for each kind of collective.
std::string collectives_table(const std::vector<bundle::CollectiveTotal>& collectives);

}  // namespace autopar
