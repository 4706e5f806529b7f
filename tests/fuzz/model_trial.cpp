#include "model_trial.h"

#include <algorithm>

#include "base/checked.h"
#include "base/file_digest.h"
#include "base/temporary_folder.h"
#include "cost/device_model.h"
#include "graph/onnx/tail_file.h"
#include "planner/load_model.h"
#include "planner/write_bundle.h"
#include "runtime/rank_run.h"
#include "runtime/session.h"
#include "runtime/tensor_files.h"
#include "search/search_plan.h"

namespace autopar::fuzz {
namespace {

namespace fs = std::filesystem;

/// Bytes that all tensors may take together: above it a run takes long, and nothing that small
/// models do not have.
constexpr std::int64_t most_bytes_to_run = std::int64_t{4} << 20;
constexpr std::size_t most_nodes_to_plan = 200;
constexpr graph::ImportLimits small_limits{
    .nodes = 2000, .rounds = 200, .constants = std::int64_t{16} << 20};

bool is_small(const graph::Graph& graph) {
  std::int64_t bytes = 0;
  for (const graph::Value& value : graph.values) {
    const std::int64_t more = graph::bytes_of(value.type, graph::num_elements(value.shape));
    bytes = saturated_add(bytes, more);
  }
  return bytes <= most_bytes_to_run;
}

search::SolvedPlan solve(const graph::Graph& graph, const cost::DeviceModel& device) {
  search::SearchOptions options;
  options.memory = search::MemoryPolicy::parse("device");
  options.method = search::SearchMethod::propagation;
  options.time_limit_seconds = 1;
  options.threads = 1;
  options.warns = false;
  return search::search_plan(graph, cost::CostModel(device, sharding::DeviceMesh({2})), options);
}

runtime::NamedTensors random_inputs(const graph::Graph& graph) {
  runtime::NamedTensors inputs;
  for (const graph::ValueId id : graph.inputs) {
    const graph::Value& input = graph.value(id);
    inputs.emplace(input.name, runtime::random_tensor(input.type, input.shape, 1));
  }
  return inputs;
}

void run_in_two(const graph::Graph& graph, search::SolvedPlan solved,
                const cost::DeviceModel& device, const runtime::NamedTensors& inputs) {
  const TemporaryFolder folder;
  const fs::path bundle = folder / "bundle";
  planner::write_bundle(
      graph, {}, {plan::one_stage_plan(graph, std::move(solved.plan)), std::move(solved.report)},
      device, {bundle, "model.onnx", false});
  runtime::Session(bundle, {.device = {.threads = 1}, .launch = {.launcher = "none"}}).run(inputs);
}

/// The same for the same file each time.
bool is_one_in_eight(const fs::path& file) { return xxh3_of_file(file).back() % 8 == 0; }

}  // namespace

void try_model(const fs::path& file) {
  graph::ImportOptions how = planner::common_import_options();
  how.limits = small_limits;
  graph::Imported model = graph::load_onnx_with_tail(file, how);
  graph::Graph& graph = model.graph;
  planner::prepare_for_splits(graph);
  if (graph.nodes.size() > most_nodes_to_plan) return;
  const cost::DeviceModel device = cost::load_device_model("cpu");
  search::SolvedPlan solved = solve(graph, device);
  if (model.tail || !is_small(graph)) return;
  const runtime::NamedTensors inputs = random_inputs(graph);
  runtime::run_whole(graph, inputs, {.threads = 1});
  if (is_one_in_eight(file)) run_in_two(graph, std::move(solved), device, inputs);
}

}  // namespace autopar::fuzz
