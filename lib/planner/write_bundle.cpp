#include "planner/write_bundle.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/in_parallel.h"
#include "base/staged_folder.h"
#include "graph/onnx/onnx_export.h"
#include "plan/plan_json.h"
#include "planner/device_fit.h"
#include "planner/find_plan.h"
#include "planner/summary.h"
#include "program/pipeline_program.h"

namespace autopar::planner {

namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::ValueId;
using plan::PipelinePlan;

/// `out` without "..", symbolic links and a slash at its end.
fs::path place_of(const fs::path& out) {
  std::error_code error;
  fs::path place = fs::absolute(out, error);
  if (!error) place = fs::weakly_canonical(place, error);
  if (error) fail("--out '{}' cannot be a folder: {}", out.string(), error.message());
  return place.has_filename() ? place : place.parent_path();
}

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text << '\n';
  stream.close();
  if (!stream) fail("cannot write {}: the disk may be full; free some space", file.string());
}

std::vector<bundle::FileInfo> file_infos(const std::string& model, const std::string& data,
                                         const graph::WrittenModel& written) {
  std::vector<bundle::FileInfo> files = {{model, written.model.bytes, written.model.xxh3}};
  if (written.data.bytes > 0) files.push_back({data, written.data.bytes, written.data.xxh3});
  return files;
}

bundle::TailInfo write_tail(const graph::Tail& tail, const fs::path& folder) {
  const std::string model = "tail.onnx";
  const std::string data = "tail.data";
  return {file_infos(model, data, graph::save_tail(tail, folder / model, folder / data)),
          tail.summary};
}

bundle::RankInfo write_rank(const Graph& shard, const PipelinePlan& plan, int rank,
                            const fs::path& folder, const WriteOptions& options) {
  const std::string model = fmt::format("rank{}.onnx", rank);
  const std::string data = fmt::format("rank{}.data", rank);
  const graph::WrittenModel written = graph::save_onnx(shard, folder / model, folder / data);
  const program::MemoryPrediction memory =
      program::predict_memory(shard, plan.microbatches, options.run_bytes);

  const std::size_t stage = program::stage_of(plan, rank);
  const plan::StagePlan& of_stage = plan.stages[stage];
  return {.rank = rank,
          .stage = static_cast<int>(stage),
          .coordinates = of_stage.plan.mesh.coordinates(rank - of_stage.first_rank),
          .files = file_infos(model, data, written),
          .weight_bytes = memory.weight_bytes,
          .peak_bytes = memory.peak_bytes};
}

/// `ports`: which of a stage's inputs or outputs are the model's.
bundle::PortInfo port_info(const graph::Value& value, const PipelinePlan& plan,
                           std::vector<ValueId> graph::StageGraph::*ports,
                           const std::map<std::string, bundle::BatchInfo>& batch) {
  bundle::PortInfo port{.name = value.name, .type = value.type, .shape = value.shape};
  if (const auto cut = batch.find(value.name); cut != batch.end()) port.batch = cut->second;
  for (const plan::StagePlan& stage : plan.stages) {
    const Graph& graph = stage.stage.graph;
    const std::vector<ValueId>& own = stage.stage.*ports;
    const auto has_its_name = [&](ValueId id) { return graph.value(id).name == value.name; };
    const auto id = std::ranges::find_if(own, has_its_name);
    if (id == own.end()) {
      port.specs.emplace_back();
      port.ranges.resize(port.ranges.size() + stage.num_devices());  // its ranks have none of it
      continue;
    }
    const sharding::TensorShardSpec& spec = stage.plan.spec_of(graph, *id);
    port.specs.push_back(to_string(spec));
    for (int rank = 0; rank < stage.num_devices(); ++rank)
      port.ranges.push_back(
          sharding::local_ranges(spec, graph.value(*id).shape, stage.plan.mesh, rank));
  }
  return port;
}

/// Every group along each set of mesh axes that some collective of a stage uses.
void append_groups(const program::Program& program, const plan::StagePlan& stage, int stage_index,
                   std::vector<bundle::GroupInfo>& groups) {
  std::set<std::vector<int>> axes_in_use;
  for (const program::Instruction& instruction : program.instructions) {
    if (instruction.is_collective()) axes_in_use.insert(instruction.step.mesh_axes);
  }
  const sharding::DeviceMesh& mesh = stage.plan.mesh;
  for (const std::vector<int>& axes : axes_in_use) {
    bundle::GroupInfo& info = groups.emplace_back(bundle::GroupInfo{stage_index, axes, {}});
    for (int rank = 0; rank < mesh.num_devices(); ++rank) {
      if (mesh.index_in_group(rank, axes) != 0) continue;
      auto& group = info.ranks.emplace_back(mesh.group(rank, axes));
      for (int& member : group) member += stage.first_rank;
    }
  }
}

bundle::StageInfo stage_info(const plan::StagePlan& stage, int index) {
  bundle::StageInfo info{.stage = index,
                         .seconds = stage.plan.predicted.cost_seconds,
                         .transfer_seconds = stage.transfer_seconds};
  for (int axis = 0; axis < stage.plan.mesh.num_axes(); ++axis) {
    info.mesh.push_back({fmt::format("axis{}", axis), stage.plan.mesh.axis_size(axis)});
  }
  for (int rank = 0; rank < stage.num_devices(); ++rank)
    info.ranks.push_back(stage.first_rank + rank);
  return info;
}

/// Everything but the ranks.
bundle::MetaInfo describe(const Graph& whole, const std::map<std::string, bundle::BatchInfo>& batch,
                          const search::FoundPipeline& found,
                          const program::PipelineProgram& program, const std::string& model_name) {
  const auto& [plan, report] = found;
  bundle::MetaInfo info;
  info.model = model_name;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const int index = static_cast<int>(s);
    info.stages.push_back(stage_info(plan.stages[s], index));
    append_groups(program.stages[s], plan.stages[s], index, info.groups);
  }
  info.microbatches = plan.microbatches;
  info.transfers = program::transfer_infos(program);
  for (const ValueId input : whole.inputs)
    info.inputs.push_back(
        port_info(whole.value(input), plan, &graph::StageGraph::model_inputs, batch));
  for (const ValueId output : whole.outputs)
    info.outputs.push_back(
        port_info(whole.value(output), plan, &graph::StageGraph::model_outputs, batch));
  for (const graph::State& state : whole.states)
    info.states.push_back({whole.value(whole.outputs[state.output]).name,
                           whole.value(whole.inputs[state.input]).name});
  info.collectives = program::collective_totals(plan, program);
  info.device = plan.stages.front().plan.device;
  info.search = name_of(report.method);
  info.search_seconds = report.search_seconds;
  info.cost_seconds = plan.predicted.cost_seconds;
  info.lower_bound_seconds = report.lower_bound_seconds;
  info.proven_optimal = report.proven_optimal;
  return info;
}

}  // namespace

void check_output_folder(const BundleOptions& options) {
  if (options.out.empty()) fail("--out: give the bundle's folder");
  const fs::path out = place_of(options.out);
  std::error_code error;
  if (!fs::is_directory(out.parent_path(), error)) {
    fail("--out {}: there is no folder {}; make it first", options.out.string(),
         out.parent_path().string());
  }
  if (!fs::exists(fs::symlink_status(out, error))) return;
  if (!fs::is_regular_file(out / "meta-info.json", error)) {
    fail("--out {} exists and is no bundle; choose another folder", options.out.string());
  }
  if (!options.force) {
    fail("--out {} exists; choose another folder, or give --force", options.out.string());
  }
}

std::string plan_json(const search::FoundPipeline& found,
                      std::span<const plan::CollectiveUse> collectives, const graph::Tail* tail) {
  nlohmann::json text = plan::plan_json(found.plan, collectives);
  text.at("summary").update(search::to_json(found.report));
  if (tail != nullptr) text["tail"] = bundle::to_json(tail->summary);
  return text.dump(2);
}

bundle::MetaInfo write_bundle(const Graph& whole,
                              const std::map<std::string, bundle::BatchInfo>& batch,
                              const search::FoundPipeline& found, const cost::DeviceModel& device,
                              const WriteOptions& options) {
  const PipelinePlan& plan = found.plan;
  check_output_folder({.out = options.out, .force = options.force});
  const program::PipelineProgram program = program::lower(plan, device);
  const std::map<std::string, bundle::BatchInfo> uncut;
  bundle::MetaInfo info =
      describe(whole, plan.microbatches > 1 ? batch : uncut, found, program, options.model_name);

  StagedFolder folder(place_of(options.out));
  info.ranks.resize(plan.num_devices());
  // One thread that faults in, digests and writes keeps no disk busy.
  constexpr std::size_t most_ranks_at_a_time = 8;
  const auto write_one = [&](std::size_t r) {
    const int rank = static_cast<int>(r);
    info.ranks[r] =
        write_rank(program::rank_graph(plan, program, rank), plan, rank, folder.path(), options);
  };
  in_parallel(info.ranks.size(), write_one, most_ranks_at_a_time);
  if (options.tail != nullptr) {
    info.tail = write_tail(*options.tail, folder.path());
    info.ranks.front().weight_bytes += options.tail->summary.weight_bytes;
    info.ranks.front().peak_bytes += options.tail->summary.weight_bytes;
  }
  write_text(folder.path() / "plan.json",
             plan_json(found, program::collective_uses(plan, program, device), options.tail));
  write_text(folder.path() / "meta-info.json", bundle::to_json(info).dump(2));
  folder.publish();
  return info;
}

std::string write_bundle(const Plan& plan, const BundleOptions& options) {
  const FoundPlan& found = plan.contents();
  const LoadedModel& model = *found.model;
  const auto shown = show(options.progress, "writing " + options.out.string());
  const WriteOptions write{.out = options.out,
                           .model_name = model.options.file.filename(),
                           .force = options.force,
                           .run_bytes = run_bytes_on(found.device),
                           .tail = model.tail ? &*model.tail : nullptr};
  const bundle::MetaInfo written = json_text(
      [&] { return write_bundle(model.graph, found.ports, found.pipeline, found.device, write); });
  const std::string text = assumed_line(model.assumed) + plan_headline(found.pipeline) +
                           "communication of a run, over all ranks:\n" +
                           collectives_table(written.collectives);
  return model.tail ? text + tail_text(model.tail->summary) : text;
}

}  // namespace autopar::planner
