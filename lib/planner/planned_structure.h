#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "cost/device_model.h"
#include "graph/graph.h"
#include "planner/structure.h"
#include "search/stages/similar_pipeline.h"

namespace autopar::planner {

/// What is read of a bundle once, to plan its model for inputs of any shapes as it was planned.
struct PlannedStructure {
  bundle::MetaInfo info;
  cost::DeviceModel device;
  std::vector<std::vector<search::OtherStage>> stages;  ///< by profile
};

/// Throws Error where one of the files that it reads was changed.
PlannedStructure read_planned_structure(bundle::MetaInfo info, const std::filesystem::path& dir);

/// The model with inputs of these shapes, as import_structure, and with its states. Weights have no
/// data. Throws Error where it is another model's than the ranks' graphs are.
graph::Graph import_model(const PlannedStructure& structure, const std::filesystem::path& dir,
                          const runtime::InputShapes& inputs, const std::string& limits);

/// A profile's stages for a graph of import_model, priced as the search prices that graph
/// (device_fit.h).
std::vector<search::OtherStage> fitted_stages(const PlannedStructure& structure,
                                              std::size_t profile, const graph::Graph& graph);

}  // namespace autopar::planner
