#include "model_options.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/interruption.h"
#include "base/problems.h"
#include "graph/onnx/onnx_import.h"
#include "graph/onnx/onnx_overview.h"
#include "graph/state.h"
#include "input_options.h"
#include "program/memory_prediction.h"
#include "program/pipeline_program.h"
#include "progress.h"
#include "runtime/executable.h"
#include "runtime/fused_values.h"
#include "runtime/kernel.h"
#include "runtime/kernels/cuda_operators.h"
#include "runtime/run_bytes.h"
#include "search/logical_meshes.h"
#include "search/pins.h"
#include "sharding/discovery/discovered_rules.h"
#include "sharding/rewrites/hoist_splits.h"
#include "sharding/rewrites/packed_scales.h"
#include "sharding/rewrites/reshape_gathers.h"

namespace autopar {

void ModelOptions::add_to(CLI::App& command) {
  command.add_option("model", model, "The ONNX file")->required();
  command.add_option("--shape", shapes, "Shape of a model input, NAME=1x128; may be repeated")
      ->allow_extra_args(false);  // one each, or it would swallow the model
  command
      .add_option(
          "--constant", constants,
          "Value of a model input that shapes depend on, NAME=FILE (.npy or .pb), for good; "
          "may be repeated")
      ->allow_extra_args(false);
  command
      .add_option(
          "--loop", loops,
          "Outputs that are inputs of a run's next step, present.*=past.*: each such pair is "
          "split in one way; may be repeated")
      ->allow_extra_args(false);
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
  command
      .add_option("--stages", stages,
                  "Pipeline stages, each on devices of its own: a number, or auto for the best")
      ->capture_default_str();
  command
      .add_option("--microbatches", microbatches,
                  "Parts of the batch that follow one another through the stages")
      ->capture_default_str();
  command
      .add_option("--batch", batch,
                  "An input whose first dimension is the batch, or NAME=1 where it is dimension 1 "
                  "(default: the first input's, wherever it is); may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--objective", objective,
                  "Of stages: latency of a run, or throughput of runs that follow one another")
      ->check(CLI::IsMember({"latency", "throughput"}))
      ->capture_default_str();
  command.add_flag("--discover", discover,
                   "Find out how operators without a sharding rule split, by running them");
}

namespace {

std::vector<std::string> state_inputs(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::State& state : graph.states)
    names.push_back(graph.value(graph.inputs[state.input]).name);
  return names;
}

/// What the importer is told by the options alone; all that is wrong with them at once.
graph::ImportOptions import_options(const ModelOptions& options) {
  graph::ImportOptions how;
  Problems problems;
  for (const std::string& text : options.shapes) {
    problems.collect([&] {
      auto [name, shape] = graph::parse_shape_binding(text);
      if (!how.shapes.emplace(name, shape).second)
        fail("--shape binds input '{}' twice; give it once", name);
    });
  }
  for (const std::string& text : options.constants) {
    problems.collect([&] {
      auto [name, tensor] = load_named_tensor("--constant", text);
      if (!how.constants.emplace(name, tensor).second)
        fail("--constant gives input '{}' twice; give it once", name);
    });
  }
  how.loops = options.loops;
  problems.throw_if_any();
  return how;
}

}  // namespace

graph::Imported load_model(const ModelOptions& options, bool weights_may_be_absent) {
  graph::ImportOptions how = import_options(options);
  how.evaluate = runtime::evaluate_constants;
  how.is_native = [](std::string_view domain, std::string_view op_type) {
    return runtime::cpu_kernels().find(domain, op_type) != nullptr;
  };
  how.weights_may_be_absent = weights_may_be_absent;
  graph::Imported model = graph::load_onnx_with_tail(options.model, how);
  graph::Graph& graph = model.graph;
  sharding::hoist_splits(graph);
  sharding::reshape_whole_gathers(graph);
  sharding::unflatten_packed_scales(graph);
  if (model.tail) graph::refuse_states_of_tail(model.tail->summary, options.loops);
  graph.states = graph::match_states(graph, options.loops);
  if (model.tail) graph::refuse_tail_of_states(model.tail->summary, state_inputs(graph));
  return model;
}

namespace {

/// Warns of operators that have no rule still.
void discover_missing_rules(const PlanOptions& options, const graph::Graph& graph) {
  if (!options.discover) return;
  for (const std::string& reason : sharding::discover_rules(graph, runtime::evaluate_constants)) {
    spdlog::warn("--discover found no split of {}", reason);
  }
}

/// The rows of a microbatch: the batch may be no multiple, but none may be left without rows.
std::int64_t microbatch_rows(std::int64_t batch, int microbatches) {
  const std::int64_t rows = (batch + microbatches - 1) / microbatches;
  const std::int64_t filled = rows == 0 ? 0 : (batch + rows - 1) / rows;
  if (filled != microbatches) {
    fail("--microbatches {}: a batch of {} makes {} of {}; give {}", microbatches, batch, filled,
         rows, std::max<std::int64_t>(filled, 1));
  }
  return rows;
}

/// With a batch of so many rows, which the model may not allow.
graph::Graph load_with_batch(const ModelOptions& options, const graph::Graph& whole,
                             const program::BatchInputs& batch, std::int64_t rows,
                             bool weights_may_be_absent) {
  ModelOptions other = options;
  for (const auto& [input, dim] : batch.dims) {
    const std::string prefix = whole.value(input).name + "=";
    std::erase_if(other.shapes, [&](const std::string& text) { return text.starts_with(prefix); });
    graph::Shape shape = whole.value(input).shape;
    shape[static_cast<std::size_t>(dim)] = rows;
    other.shapes.push_back(prefix + graph::to_string(shape));
  }
  return load_model(other, weights_may_be_absent).graph;
}

void tell_where_it_is(const program::BatchInputs& batch, const graph::Graph& graph) {
  const auto& [input, dim] = batch.dims.front();
  if (dim > 0)
    spdlog::info("microbatches cut dimension {} of input '{}'", dim, graph.value(input).name);
}

/// All that is wrong with names in options, as far as the model's file tells by itself.
void check_names_in_file(const ModelOptions& options, const PlanOptions& plan) {
  Problems problems;
  std::vector<std::string> inputs;
  for (const auto& port : graph::onnx_overview(options.model).inputs) inputs.push_back(port.name);
  problems.collect([&] { program::check_batch_names(plan.batch, inputs); });
  problems.collect([&] {
    if (!plan.strategy.empty())
      search::check_pin_names(search::load_pins(plan.strategy),
                              graph::names_in_onnx(options.model));
  });
  problems.throw_if_any();
}

/// Where the model is refused, names that it does not have are told, too.
graph::Imported load_or_tell_names(const ModelOptions& options, const PlanOptions& plan,
                                   bool weights_may_be_absent) {
  graph::Imported model;
  Problems problems;
  if (!problems.collect([&] { model = load_model(options, weights_may_be_absent); }))
    problems.collect([&] { check_names_in_file(options, plan); });
  problems.throw_if_any();
  return model;
}

/// Where it is refused, pins that name nothing are told, too.
program::BatchInputs find_batch_or_tell_pins(const graph::Graph& graph, const PlanOptions& plan) {
  program::BatchInputs batch;
  Problems problems;
  const bool is_found = problems.collect([&] { batch = program::find_batch(graph, plan.batch); });
  if (!is_found && !plan.strategy.empty()) {
    const std::vector<search::Pin> pins = search::load_pins(plan.strategy);
    search::Pins(pins, graph, problems);
  }
  problems.throw_if_any();
  return batch;
}

}  // namespace

BatchedModel load_batched_model(const ModelOptions& options, const PlanOptions& plan,
                                bool weights_may_be_absent) {
  graph::Imported imported = load_or_tell_names(options, plan, weights_may_be_absent);
  BatchedModel model{std::move(imported.graph), std::move(imported.tail), {}};
  discover_missing_rules(plan, model.whole);
  if (plan.microbatches == 1) {
    model.split.microbatch = model.whole;
    return model;
  }
  const program::BatchInputs batch = find_batch_or_tell_pins(model.whole, plan);
  tell_where_it_is(batch, model.whole);
  const std::int64_t rows = microbatch_rows(batch.rows, plan.microbatches);
  if (rows * plan.microbatches == batch.rows) {
    model.split = program::split_batch(model.whole, plan.microbatches, batch);
    discover_missing_rules(plan, model.split.microbatch);
    return model;
  }
  const std::int64_t filled = rows * plan.microbatches;
  const graph::Graph filled_up = [&] {
    try {
      return load_with_batch(options, model.whole, batch, filled, weights_may_be_absent);
    } catch (const Error&) {
      fail("--microbatches {}: the model is for a batch of {} alone; give a divisor of it",
           plan.microbatches, batch.rows);
    }
  }();
  discover_missing_rules(plan, filled_up);
  if (!program::differ_in_batch_alone(model.whole, filled_up, batch.rows, filled)) {
    fail(
        "--microbatches {}: the model computes with the size of its batch, {}; give a divisor of "
        "it",
        plan.microbatches, batch.rows);
  }
  // Both graphs are one model's, value by value.
  model.split = program::split_batch(filled_up, plan.microbatches, batch);
  discover_missing_rules(plan, model.split.microbatch);
  return model;
}

namespace {

/// nullopt for auto.
std::optional<int> stage_count(const PlanOptions& options) {
  if (options.stages == "auto") return std::nullopt;
  int count = 0;
  const char* const end = options.stages.data() + options.stages.size();
  const auto [rest, error] = std::from_chars(options.stages.data(), end, count);
  if (error != std::errc() || rest != end || count < 1)
    fail("--stages {}: give a number of at least 1, or auto", options.stages);
  return count;
}

bool mesh_is_of_a_stage(const PlanOptions& options) {
  return stage_count(options).value_or(2) > 1 && !options.mesh.empty() && options.mesh != "auto";
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
  if (mesh_is_of_a_stage(options)) {
    const auto of_stage = sharding::DeviceMesh::parse(options.mesh);
    // One stage of all devices has that mesh, too.
    const bool is_of_all = of_stage.num_devices() == options.ngpus;
    return {{device, is_of_all ? of_stage : sharding::DeviceMesh({options.ngpus})}};
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

}  // namespace

std::vector<const runtime::KernelTable*> kernels_for(const cost::DeviceModel& device) {
  if (device.runs_on == "cpu") return {&runtime::cpu_kernels()};
  if (device.runs_on == "cuda") return {&runtime::cuda_operators(), &runtime::cpu_kernels()};
  return {&runtime::cpu_kernels(), &runtime::cuda_operators()};
}

void fit_to_model(std::vector<cost::CostModel>& models, const graph::Graph& graph) {
  cost::DeviceModel device = models.front().device();
  const runtime::KernelTable& kernels = *kernels_for(device).front();
  device.without_memory =
      std::make_shared<const cost::ValueNames>(runtime::values_without_memory(graph, kernels));
  if (device.is_fusing)
    device.fused = std::make_shared<const cost::ValueNames>(runtime::fused_values(graph, kernels));
  // A run reads each weight once: of few, a cache holds as much as of anything.
  if (device.is_fusing && device.weight_bytes_per_second > 0) {
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

search::SearchOptions make_search_options(const PlanOptions& options) {
  search::SearchOptions search;
  search.method = method_of(options.search);
  if (options.no_presolve && search.method != search::SearchMethod::ilp) {
    throw CLI::ValidationError("--no-presolve", "is for --search ilp alone; leave it out");
  }
  Problems problems;
  if (!(options.time_limit_seconds >= 0)) {
    problems.add("--time-limit {}: give seconds, 0 or more", options.time_limit_seconds);
  }
  search.presolve = !options.no_presolve;
  search.bound = options.bound;
  problems.collect([&] { search.memory = search::MemoryPolicy::parse(options.memory); });
  problems.collect([&] {
    if (!options.strategy.empty()) search.pins = search::load_pins(options.strategy);
  });
  search.time_limit_seconds = options.time_limit_seconds;
  problems.throw_if_any();
  return search;
}

}  // namespace

SearchSetup make_search_setup(const PlanOptions& plan, const ModelOptions& model,
                              const std::function<void()>& check_files) {
  SearchSetup setup;
  Problems problems;
  problems.collect([&] { setup.meshes = make_cost_models(plan); });
  problems.collect([&] { stage_count(plan); });
  if (plan.microbatches < 1) problems.add("--microbatches {}: give at least 1", plan.microbatches);
  if (plan.microbatches == 1 && !plan.batch.empty())
    problems.add("--batch {}: give --microbatches, too", plan.batch.front());
  problems.collect([&] { setup.options = make_search_options(plan); });
  problems.collect(check_files);
  if (problems.any()) {
    problems.collect([&] { graph::check_import_options(model.model, import_options(model)); });
    problems.collect([&] { check_names_in_file(model, plan); });
  }
  problems.throw_if_any();
  return setup;
}

namespace {

void tell_of_interruption() {
  if (was_interrupted()) spdlog::warn("interrupted: this is the best plan found so far");
}

/// Weights that rank 0 keeps for the tail where that shares memory with its shard. Its shares are
/// the largest, so that the fullest rank has them.
std::int64_t tail_bytes_on(const cost::DeviceModel& device,
                           const std::optional<graph::Tail>& tail) {
  return tail && device.runs_on == "cpu" ? tail->summary.weight_bytes : 0;
}

}  // namespace

program::RunBytes run_bytes_on(const cost::DeviceModel& device) {
  return [kernels = kernels_for(device)](const graph::Graph& graph, int microbatches) {
    return runtime::packed_graph(graph, kernels, microbatches).bytes;
  };
}

plan::PipelinePlan find_plan(const BatchedModel& model, const PlanOptions& plan,
                             std::span<const cost::CostModel> meshes,
                             search::SearchOptions options) {
  const std::optional<int> stages = stage_count(plan);
  if (stages == 1 && plan.microbatches == 1) {
    return plan::one_stage_plan(model.whole,
                                find_solved_plan(model, meshes, std::move(options)).plan);
  }
  if (!model.whole.states.empty())
    fail("--loop: states stay on one stage's devices; leave --stages and --microbatches out");
  const Progress progress("searching for the best stages");
  const cost::DeviceModel& device = meshes.front().device();
  options.peak_bytes = [&](const plan::Plan& found) {
    const cost::CostModel cost(device, found.mesh);
    return tail_bytes_on(device, model.tail) +
           program::predict_peak_bytes(model.whole, found, cost.step_price(), run_bytes_on(device));
  };
  search::PipelineOptions pipeline;
  pipeline.stages = stages.value_or(0);
  pipeline.microbatches = plan.microbatches;
  pipeline.objective =
      plan.objective == "latency" ? plan::Objective::latency : plan::Objective::throughput;
  if (mesh_is_of_a_stage(plan)) pipeline.mesh = sharding::DeviceMesh::parse(plan.mesh);
  pipeline.peak_bytes = [&](const graph::StageGraph& stage, const plan::Plan& found) {
    return program::predict_peak_bytes(stage, found, device, plan.microbatches,
                                       run_bytes_on(device));
  };
  plan::PipelinePlan found = search::search_pipeline(model.whole, model.split.microbatch, device,
                                                     meshes, options, pipeline);
  tell_of_interruption();
  return found;
}

search::SolvedPlan find_solved_plan(const BatchedModel& model,
                                    std::span<const cost::CostModel> meshes,
                                    search::SearchOptions options) {
  const Progress progress("searching for the best plan");
  options.peak_bytes = [&](const plan::Plan& plan) {
    const cost::DeviceModel& device = meshes.front().device();
    const cost::CostModel cost(device, plan.mesh);
    return tail_bytes_on(device, model.tail) +
           program::predict_peak_bytes(model.whole, plan, cost.step_price(), run_bytes_on(device));
  };
  search::SolvedPlan found = search::search_meshes(model.whole, meshes, options);
  tell_of_interruption();
  return found;
}

}  // namespace autopar
