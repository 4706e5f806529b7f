#include "planner/load_model.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/mapped_file_checks.h"
#include "base/problems.h"
#include "graph/found_states.h"
#include "graph/onnx/onnx_overview.h"
#include "graph/operators/library_operator.h"
#include "graph/state.h"
#include "planner/profiles.h"
#include "planner/strategy_file.h"
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

/// The states that options name.
void set_states(graph::Graph& graph, const std::optional<graph::Tail>& tail,
                const std::vector<std::string>& patterns) {
  if (tail) graph::refuse_states_of_tail(tail->summary, patterns);
  graph.states = graph::match_states(graph, patterns);
  if (tail) graph::refuse_tail_of_states(tail->summary, state_inputs(graph));
}

/// The states that names tell, but for those that the tail reads.
std::vector<graph::State> states_before_tail(const graph::Graph& graph,
                                             const std::optional<graph::Tail>& tail) {
  std::vector<graph::State> states = graph::find_states(graph);
  std::erase_if(states, [&](const graph::State& state) {
    const std::string& input = graph.value(graph.inputs[state.input]).name;
    return tail && std::ranges::find(tail->summary.inputs, input) != tail->summary.inputs.end();
  });
  return states;
}

bool is_without_states(const ModelOptions& options) {
  return options.loops == std::vector<std::string>{"none"};
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
  problems.collect([&] { how.limits = graph::parse_import_limits(options.limits); });
  if (!is_without_states(options)) how.loops = options.loops;
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
      search::check_pin_names(pins_by_name(plan), graph::names_in_onnx(options.file));
  });
  problems.throw_if_any();
}

graph::ImportOptions how_to_import(const ModelOptions& options) {
  graph::ImportOptions how = common_import_options();
  graph::ImportOptions told = import_options(options);
  how.shapes = std::move(told.shapes);
  how.constants = std::move(told.constants);
  how.loops = std::move(told.loops);
  how.limits = told.limits;
  how.weights_may_be_absent = options.weights_may_be_absent;
  return how;
}

/// What is done with a graph that was read: forms that split better, and the states.
/// Only the shards of a model have collectives.
void refuse_collectives(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes)
    if (node.domain == graph::collective_domain)
      fail("node '{}' ({}) is a collective, which only the shards of a model have", node.name,
           node.op_type);
}

void prepare(const ModelOptions& options, graph::Imported& model) {
  graph::Graph& graph = model.graph;
  refuse_collectives(graph);
  prepare_for_splits(graph);
  if (options.loops.empty())
    graph.states = states_before_tail(graph, model.tail);
  else if (!is_without_states(options))
    set_states(graph, model.tail, options.loops);
}

/// The options for each profile by itself.
std::vector<ModelOptions> options_by_profile(const ModelOptions& options) {
  std::vector<ModelOptions> each;
  for (const ProfileOptions& profile : profiles_of(options)) {
    each.push_back(options);
    each.back().shapes = profile.shapes;
    each.back().profile_weights.clear();
  }
  return each;
}

std::vector<graph::Shape> input_shapes(const graph::Graph& graph) {
  std::vector<graph::Shape> shapes;
  for (const graph::ValueId input : graph.inputs) shapes.push_back(graph.value(input).shape);
  return shapes;
}

/// Bindings of different symbols may come to the same.
void check_differ(const std::vector<LoadedProfile>& profiles) {
  std::map<std::vector<graph::Shape>, std::string> known;
  for (const LoadedProfile& each : profiles) {
    const auto [first, is_new] = known.try_emplace(input_shapes(each.graph), each.binding);
    if (!is_new)
      fail("--shape: the profiles {} and {} give all inputs the same shapes; leave one out",
           first->second, each.binding);
  }
}

/// Several profiles are of models that are split whole, so far.
void refuse_tails(const std::vector<LoadedProfile>& profiles) {
  for (const LoadedProfile& each : profiles)
    if (each.tail)
      fail(
          "--shape: the model ends in shapes that only a run tells, from {} on; it can be split "
          "for one profile alone: give each --shape one value",
          each.tail->summary.first_node);
}

std::vector<LoadedProfile> load_profiles(const ModelOptions& options) {
  const std::vector<ProfileOptions> wanted = profiles_of(options);
  std::vector<graph::ImportOptions> how;
  for (const ModelOptions& each : options_by_profile(options)) how.push_back(how_to_import(each));
  std::vector<graph::Imported> imported = graph::load_onnx_with_tail(options.file, how);
  std::vector<LoadedProfile> profiles;
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    prepare(options, imported[p]);
    profiles.push_back({wanted[p].binding, wanted[p].weight, std::move(imported[p].graph),
                        std::move(imported[p].tail), std::move(imported[p].assumed)});
  }
  if (profiles.size() == 1) return profiles;
  refuse_tails(profiles);
  check_differ(profiles);
  return profiles;
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
  problems.collect([&] {
    for (const ModelOptions& each : options_by_profile(options))
      graph::check_import_options(options.file, import_options(each));
  });
  problems.collect([&] { check_plan_names(options, plan); });
  problems.throw_if_any();
}

graph::Assumptions assumed_by_all(const std::vector<LoadedProfile>& profiles) {
  graph::Assumptions all;
  for (const LoadedProfile& profile : profiles)
    for (const graph::Assumption& each : profile.assumed)
      if (std::ranges::find(all, each) == all.end()) all.push_back(each);
  return all;
}

std::map<std::string, graph::Tensor> constants_of(const ModelOptions& options) {
  ModelOptions of_any_shape = options;
  of_any_shape.shapes.clear();  // they may be lists
  return import_options(of_any_shape).constants;
}

graph::ImportOptions common_import_options() {
  graph::ImportOptions how;
  how.evaluate = runtime::evaluate_constants;
  how.is_native = [](std::string_view domain, std::string_view op_type) {
    return runtime::cpu_kernels().find(domain, op_type) != nullptr;
  };
  return how;
}

void prepare_for_splits(graph::Graph& graph) {
  sharding::hoist_splits(graph);
  sharding::reshape_whole_gathers(graph);
  sharding::unflatten_packed_scales(graph);
}

graph::Imported load_graph(const ModelOptions& options) {
  const graph::ImportOptions how = how_to_import(options);
  graph::Imported model = graph::load_onnx_with_tail(options.file, how);
  prepare(options, model);
  return model;
}

Model load_model(const ModelOptions& options, const PlanOptions& for_plan) {
  const Shown shown(options.progress, "reading " + options.file.string());
  std::vector<LoadedProfile> profiles;
  Problems problems;
  if (!problems.collect([&] { profiles = load_profiles(options); }))
    problems.collect([&] { check_plan_names(options, for_plan); });
  problems.throw_if_any();
  check_mapped_files();  // constants were folded
  return Model(std::make_shared<const LoadedModel>(LoadedModel{options, std::move(profiles)}));
}

std::string Model::assumed() const {
  const std::vector<LoadedProfile>& profiles = contents().profiles;
  return assumed_text(assumed_by_all(profiles));
}

std::vector<std::string> operators_without_kernel(const Model& model) {
  std::set<std::string> op_types;
  for (const LoadedProfile& profile : model.contents().profiles)
    for (const graph::Node& node : profile.graph.nodes)
      if (!runtime::cpu_kernels().find(node.domain, node.op_type))
        op_types.insert(qualified_op_type(node));
  return {op_types.begin(), op_types.end()};
}

}  // namespace autopar::planner
