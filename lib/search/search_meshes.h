#pragma once

#include <optional>
#include <span>
#include <vector>

#include "search/search_plan.h"

namespace autopar::search {

/// The cheapest plans over several meshes of the same devices, `meshes` having the same profiles on
/// each. Those of fewest axes are searched first and preferred where plans cost the same.
/// `options.time_limit_seconds` is for all meshes together; a mesh that there is no time for is
/// left out. The report tells of every mesh; its lower bound is the least of all meshes', of those
/// left out too, and an optimum is proven only where no mesh can have a cheaper plan. Throws as
/// search_plan where there is no plan on any mesh: where none fits the memory limit, the error that
/// names the least memory.
JointPlan search_meshes(std::span<const std::vector<Profile>> meshes, const SearchOptions& options);
/// The same for one graph.
SolvedPlan search_meshes(const graph::Graph& graph, std::span<const cost::CostModel> meshes,
                         const SearchOptions& options);

}  // namespace autopar::search
