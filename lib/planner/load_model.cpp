#include "planner/load_model.h"

#include <set>

#include "base/problems.h"
#include "graph/onnx/onnx_overview.h"
#include "graph/operators/library_operator.h"
#include "graph/state.h"
#include "planner/summary.h"
#include "program/split_batch.h"
#include "runtime/executable.h"
#include "runtime/kernel.h"
#include "runtime/tensor_files.h"
#include "search/pins.h"
#include "sharding/rewrites/rewrites.h"

namespace autopar::planner {

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
        fail("--shape binds '{}' twice; give it once", name);
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

void check_plan_names(const ModelOptions& options, const PlanOptions& plan) {
  Problems problems;
  std::vector<std::string> inputs;
  for (const auto& port : graph::onnx_overview(options.file).inputs) inputs.push_back(port.name);
  problems.collect([&] { program::check_batch_names(plan.batch, inputs); });
  problems.collect([&] {
    if (!plan.strategy.empty())
      search::check_pin_names(search::load_pins(plan.strategy), graph::names_in_onnx(options.file));
  });
  problems.throw_if_any();
}

}  // namespace

std::pair<std::string, graph::Tensor> load_named_tensor(std::string_view option,
                                                        const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    fail("{} {}: give NAME=FILE.npy or NAME=FILE.pb", option, text);
  return {text.substr(0, equals), runtime::load_tensor_file(text.substr(equals + 1))};
}

void load_operators(const std::filesystem::path& library) { graph::load_operators(library); }

void check_names(const ModelOptions& options, const PlanOptions& plan) {
  Problems problems;
  problems.collect([&] { graph::check_import_options(options.file, import_options(options)); });
  problems.collect([&] { check_plan_names(options, plan); });
  problems.throw_if_any();
}

graph::Imported load_graph(const ModelOptions& options) {
  graph::ImportOptions how = import_options(options);
  how.evaluate = runtime::evaluate_constants;
  how.is_native = [](std::string_view domain, std::string_view op_type) {
    return runtime::cpu_kernels().find(domain, op_type) != nullptr;
  };
  how.weights_may_be_absent = options.weights_may_be_absent;
  graph::Imported model = graph::load_onnx_with_tail(options.file, how);
  graph::Graph& graph = model.graph;
  sharding::hoist_splits(graph);
  sharding::reshape_whole_gathers(graph);
  sharding::unflatten_packed_scales(graph);
  if (model.tail) graph::refuse_states_of_tail(model.tail->summary, options.loops);
  graph.states = graph::match_states(graph, options.loops);
  if (model.tail) graph::refuse_tail_of_states(model.tail->summary, state_inputs(graph));
  return model;
}

Model load_model(const ModelOptions& options, const PlanOptions& for_plan) {
  const auto shown = show(options.progress, "reading " + options.file.string());
  graph::Imported imported;
  Problems problems;
  if (!problems.collect([&] { imported = load_graph(options); }))
    problems.collect([&] { check_plan_names(options, for_plan); });
  problems.throw_if_any();
  return Model(std::make_shared<const LoadedModel>(LoadedModel{
      options, std::move(imported.graph), std::move(imported.tail), std::move(imported.assumed)}));
}

std::string Model::assumed() const { return assumed_text(contents().assumed); }

std::vector<std::string> operators_without_kernel(const Model& model) {
  std::set<std::string> op_types;
  for (const graph::Node& node : model.contents().graph.nodes) {
    if (!runtime::cpu_kernels().find(node.domain, node.op_type))
      op_types.insert(qualified_op_type(node));
  }
  return {op_types.begin(), op_types.end()};
}

}  // namespace autopar::planner
