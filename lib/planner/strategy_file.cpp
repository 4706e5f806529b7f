#include "planner/strategy_file.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <set>

#include "graph/onnx/onnx_overview.h"
#include "planner/find_plan.h"
#include "search/annotated_pins.h"
#include "search/logical_meshes.h"

namespace autopar::planner {
namespace {

/// The meshes that the search may give a stage of so many devices.
std::vector<sharding::DeviceMesh> meshes_of_stage(const SearchSetup& setup, int devices) {
  if (setup.pipeline.stages == 1) {
    std::vector<sharding::DeviceMesh> meshes;
    for (const cost::CostModel& each : setup.meshes) meshes.push_back(each.mesh());
    return meshes;
  }
  const cost::CostModel& all = setup.meshes.front();
  for (search::Submesh& submesh :
       search::submeshes(all.mesh().num_devices(), all.device(), setup.pipeline.mesh))
    if (submesh.devices == devices) return std::move(submesh.views);
  return {};
}

using Names = std::set<std::string, std::less<>>;

/// The annotations without the nodes that the model's file has, but the model no more once it is
/// read: those that were folded, inlined or taken apart.
graph::DeviceAnnotations annotations_of_operators(const SearchSetup& setup,
                                                  const LoadedModel& model) {
  graph::DeviceAnnotations annotations = *setup.annotations;
  Names operators;
  for (const graph::Node& node : model.profiles.front().graph.nodes) operators.insert(node.name);
  const auto is_missing = [&](const graph::AnnotatedNode& node) {
    return !operators.contains(node.name);
  };
  if (std::ranges::none_of(annotations.nodes, is_missing)) return annotations;
  const std::vector<std::string> in_file = graph::names_in_onnx(model.options.file);
  const Names known(in_file.begin(), in_file.end());
  std::vector<std::string> left_out;
  std::erase_if(annotations.nodes, [&](const graph::AnnotatedNode& node) {
    const bool is_gone = is_missing(node) && known.contains(node.name);
    if (is_gone) left_out.push_back(node.name);
    return is_gone;
  });
  if (setup.search.warns && !left_out.empty())
    spdlog::warn("{}: not pinned, since they are no operators once the model is read: {}",
                 setup.strategy, fmt::join(left_out, ", "));
  return annotations;
}

}  // namespace

bool has_annotations(const PlanOptions& options) { return options.strategy.extension() == ".onnx"; }

std::optional<graph::DeviceAnnotations> annotations_of(const PlanOptions& options) {
  if (!has_annotations(options)) return std::nullopt;
  return graph::read_annotations(options.strategy, options.ngpus);
}

std::string strategy_name(const PlanOptions& options) {
  return "--strategy " + options.strategy.string();
}

std::vector<search::Pin> pins_by_name(const PlanOptions& options) {
  if (options.strategy.empty()) return {};
  if (const auto annotations = annotations_of(options)) return search::named_pins(*annotations);
  return search::load_pins(options.strategy);
}

std::vector<search::Pin> pins_for(const SearchSetup& setup, const LoadedModel& model) {
  if (!setup.annotations) return setup.search.pins;
  const auto meshes = [&](int devices) { return meshes_of_stage(setup, devices); };
  return search::pins_of(annotations_of_operators(setup, model), model.profiles.front().graph,
                         meshes, setup.strategy);
}

}  // namespace autopar::planner
