#include "model_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "graph/error.h"
#include "graph/onnx_import.h"
#include "partition/memory_prediction.h"
#include "progress.h"
#include "runtime/executable.h"
#include "runtime/fused_values.h"
#include "runtime/kernel.h"
#include "search/logical_meshes.h"
#include "sharding/hoist_splits.h"

namespace autopar {

void ModelOptions::add_to(CLI::App& command) {
  command.add_option("model", model, "The ONNX file")->required();
  command.add_option("--shape", shapes, "Shape of a model input, NAME=1x128; may be repeated")
      ->allow_extra_args(false);  // one each, or it would swallow the model
}

void PlanOptions::add_to(CLI::App& command) {
  command.add_option("--ngpus", ngpus, "Devices to split the model over")->required();
  command.add_option("--mesh", mesh,
                     "The devices as a mesh, e.g. 2x4, or auto: the best one (default: one axis)");
  command
      .add_option(
          "--device", device,
          fmt::format("A device file, or one of {}", fmt::join(cost::device_preset_names(), ", ")))
      ->capture_default_str();
  command
      .add_option("--memory", memory,
                  "fair (1.25/N of the weights a rank), device, or a size such as 80GiB")
      ->capture_default_str();
  command.add_option("--search", search, "How the plan is searched for: ilp is exact")
      ->check(CLI::IsMember({"ilp", "propagation", "recursive"}))
      ->capture_default_str();
  command.add_flag("--bound", bound,
                   "Have the exact search prove a bound for another search's plan");
  command.add_flag("--no-presolve", no_presolve, "Hand GLPK the whole ILP (with --search ilp)");
  command.add_option("--strategy", strategy, "JSON file that pins operators' strategies");
  command.add_option("--time-limit", time_limit_seconds, "Seconds for the search")
      ->capture_default_str();
}

graph::Graph load_model(const ModelOptions& options, bool weights_may_be_absent) {
  graph::ImportOptions how;
  for (const std::string& text : options.shapes) {
    auto [name, shape] = graph::parse_shape_binding(text);
    if (!how.shapes.emplace(name, shape).second) {
      fail("--shape binds input '{}' twice; give it once", name);
    }
  }
  how.evaluate = runtime::evaluate_constants;
  how.is_native = [](std::string_view domain, std::string_view op_type) {
    return runtime::cpu_kernels().find(domain, op_type) != nullptr;
  };
  how.weights_may_be_absent = weights_may_be_absent;
  graph::Graph graph = graph::load_onnx(options.model, how);
  sharding::hoist_splits(graph);
  return graph;
}

std::vector<cost::CostModel> make_cost_models(const PlanOptions& options) {
  if (options.ngpus < 1) fail("--ngpus {}: give at least 1", options.ngpus);
  const cost::DeviceModel device = cost::load_device_model(options.device);
  device.check_has(options.ngpus);
  std::vector<cost::CostModel> models;
  if (options.mesh == "auto") {
    for (const auto& mesh : search::logical_meshes(options.ngpus, device.gpus_per_node)) {
      models.emplace_back(device, mesh);
    }
    return models;
  }
  const sharding::DeviceMesh mesh = options.mesh.empty()
                                        ? sharding::DeviceMesh({options.ngpus})
                                        : sharding::DeviceMesh::parse(options.mesh);
  if (mesh.num_devices() != options.ngpus) {
    fail("--mesh {} has {} devices but --ngpus is {}; make them equal", options.mesh,
         mesh.num_devices(), options.ngpus);
  }
  models.emplace_back(device, mesh);
  return models;
}

void fit_to_model(std::vector<cost::CostModel>& models, const graph::Graph& graph) {
  cost::DeviceModel device = models.front().device();
  if (!device.is_fusing) return;
  device.fused = std::make_shared<const cost::ValueNames>(
      runtime::fused_values(graph, runtime::cpu_kernels()));
  // A run reads each weight once: of few, a cache holds as much as of anything.
  if (device.weight_bytes_per_second > 0) {
    const auto weights = static_cast<double>(graph::weight_bytes(graph));
    device.weight_bytes_per_second =
        std::max(device.weight_bytes_per_second, device.memory_bytes_per_second.at(weights));
  }
  for (cost::CostModel& model : models) model = cost::CostModel(device, model.mesh());
}

namespace {

search::SearchMethod method_of(const std::string& name) {
  using search::SearchMethod;
  for (const auto method : {SearchMethod::propagation, SearchMethod::recursive}) {
    if (name == name_of(method)) return method;
  }
  return SearchMethod::ilp;  // the option's check lets no other name through
}

}  // namespace

search::SearchOptions make_search_options(const PlanOptions& options) {
  search::SearchOptions search;
  search.method = method_of(options.search);
  if (options.no_presolve && search.method != search::SearchMethod::ilp) {
    throw CLI::ValidationError("--no-presolve", "is for --search ilp alone; leave it out");
  }
  if (!(options.time_limit_seconds >= 0)) {
    fail("--time-limit {}: give seconds, 0 or more", options.time_limit_seconds);
  }
  search.presolve = !options.no_presolve;
  search.bound = options.bound;
  search.memory = search::MemoryPolicy::parse(options.memory);
  if (!options.strategy.empty()) search.pins = search::load_pins(options.strategy);
  search.time_limit_seconds = options.time_limit_seconds;
  return search;
}

search::Plan find_plan(const graph::Graph& graph, std::span<const cost::CostModel> meshes,
                       search::SearchOptions options) {
  return find_solved_plan(graph, meshes, std::move(options)).plan;
}

search::SolvedPlan find_solved_plan(const graph::Graph& graph,
                                    std::span<const cost::CostModel> meshes,
                                    search::SearchOptions options) {
  const Progress progress("searching for the best plan");
  options.peak_bytes = [&](const search::Plan& plan) {
    const cost::CostModel cost(meshes.front().device(), plan.mesh);
    return partition::predict_peak_bytes(graph, plan, cost.step_price());
  };
  return search::search_meshes(graph, meshes, options);
}

}  // namespace autopar
