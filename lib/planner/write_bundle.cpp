#include "planner/write_bundle.h"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/file_digest.h"
#include "base/in_parallel.h"
#include "base/mapped_file_checks.h"
#include "base/progress.h"
#include "base/staged_folder.h"
#include "base/whole_file.h"
#include "bundle/bundle_folder.h"
#include "bundle/secret_file.h"
#include "cost/device_file.h"
#include "graph/arena.h"
#include "graph/onnx/onnx_export.h"
#include "graph/onnx/structure_file.h"
#include "graph/runtimes/attention_masks.h"
#include "plan/plan_json.h"
#include "planner/device_fit.h"
#include "planner/find_plan.h"
#include "planner/profile_info.h"
#include "planner/shard_flavour.h"
#include "planner/summary.h"
#include "program/pipeline_program.h"
#include "search/joined_weights.h"

namespace autopar::planner {

namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::ValueId;
using plan::PipelinePlan;

std::vector<bundle::FileInfo> file_infos(const std::string& model, const std::string& data,
                                         const graph::WrittenModel& written) {
  std::vector<bundle::FileInfo> files = {{model, written.model.bytes, written.model.xxh3}};
  if (written.data.bytes > 0) files.push_back({data, written.data.bytes, written.data.xxh3});
  return files;
}

bundle::TailInfo write_tail(const graph::Tail& tail, const fs::path& folder) {
  const fs::path model = folder / bundle::tail_file;
  const fs::path data = folder / bundle::tail_data_file;
  return {
      file_infos(bundle::tail_file, bundle::tail_data_file, graph::save_tail(tail, model, data)),
      tail.summary};
}

/// A profile's plan, ready to be written.
struct PlannedProfile {
  const BundleProfile& profile;
  program::PipelineProgram program;
};

/// By profile, what a rank's graph needs. Constants that were folded for another profile's shapes
/// stay on the rank, too.
std::vector<program::MemoryPrediction> predict_memory(std::span<const Graph> shards,
                                                      int microbatches,
                                                      const program::RunBytes& run_bytes) {
  std::vector<const Graph*> all;
  for (const Graph& shard : shards) all.push_back(&shard);
  const std::int64_t of_all = search::joined_weight_bytes(all);
  std::vector<program::MemoryPrediction> needed;
  for (const Graph* const shard : all) {
    const std::int64_t of_others = of_all - search::joined_weight_bytes({&shard, 1});
    const program::MemoryPrediction own = program::predict_memory(*shard, microbatches, run_bytes);
    needed.push_back({own.weight_bytes + of_others, own.peak_bytes + of_others});
  }
  return needed;
}

/// By profile, what states take on a rank beside the inputs that are states: a session has them as
/// long as the profile that has most of them, for the runs of all.
std::vector<std::int64_t> bytes_of_states_beside(std::span<const Graph> shards) {
  std::map<std::string, std::int64_t> longest;
  const auto for_states = [](const Graph& shard, const auto& step) {
    for (const graph::State& state : shard.states) {
      const graph::Value& input = shard.value(shard.inputs[state.input]);
      step(input.name,
           graph::aligned(graph::bytes_of(input.type, graph::num_elements(input.shape))));
    }
  };
  for (const Graph& shard : shards)
    for_states(shard, [&](const std::string& name, std::int64_t bytes) {
      longest[name] = std::max(longest[name], bytes);
    });
  std::vector<std::int64_t> beside;
  for (const Graph& shard : shards) {
    std::int64_t& bytes = beside.emplace_back();
    for_states(shard, [&](const std::string& name, std::int64_t own) {
      if (longest.at(name) != own) bytes += longest.at(name);
    });
  }
  return beside;
}

/// The search has kept each profile's own peak within the limit.
void check_limit(const bundle::MetaInfo& info) {
  for (const bundle::RankInfo& rank : info.ranks) {
    const auto is_below = [&](const bundle::ProfileInfo& profile) {
      return profile.peak_bytes[static_cast<std::size_t>(rank.rank)] < rank.peak_bytes;
    };
    if (rank.peak_bytes > info.memory_limit_bytes && std::ranges::all_of(info.profiles, is_below))
      fail(
          "rank {} would need {}, since states lie there in runs of all profiles, as long as any "
          "of them has them, and the limit is {}: raise --memory or add devices",
          rank.rank, in_bytes(rank.peak_bytes), in_bytes(info.memory_limit_bytes));
  }
}

/// A graph a profile, all over one file of weights. Tells the profiles of `whole` what they need.
bundle::RankInfo write_rank(std::span<const PlannedProfile> profiles, int rank,
                            const fs::path& folder, const WriteOptions& options,
                            bundle::MetaInfo& whole) {
  const PipelinePlan& plan = *profiles.front().profile.plan;
  const std::size_t stage = program::stage_of(plan, rank);
  const plan::StagePlan& of_stage = plan.stages[stage];
  bundle::RankInfo info{.rank = rank,
                        .stage = static_cast<int>(stage),
                        .coordinates = of_stage.plan.mesh.coordinates(rank - of_stage.first_rank),
                        .files = {}};
  std::vector<Graph> shards;
  std::vector<fs::path> files;
  for (const auto& [profile, program] : profiles) {
    files.push_back(folder / bundle::graph_file(rank, files.size()));
    shards.push_back(program::rank_graph(*profile.plan, program, rank));
  }
  const auto needed = predict_memory(shards, plan.microbatches, options.run_bytes);
  const std::vector<std::int64_t> states = bytes_of_states_beside(shards);
  for (std::size_t p = 0; p < needed.size(); ++p) {
    info.weight_bytes = std::max(info.weight_bytes, needed[p].weight_bytes);
    info.peak_bytes = std::max(info.peak_bytes, needed[p].peak_bytes + states[p]);
    whole.profiles[p].peak_bytes[static_cast<std::size_t>(rank)] = needed[p].peak_bytes;
  }
  for (Graph& shard : shards) {
    graph::repeat_rows_of_attention_masks(shard);
    if (options.use_collectives != nullptr) options.use_collectives(shard, plan.num_devices());
  }
  const std::string data = bundle::data_file(rank);
  const graph::WrittenModels written = graph::save_onnx(shards, files, folder / data);
  for (std::size_t p = 0; p < files.size(); ++p)
    info.files.push_back({files[p].filename(), written.models[p].bytes, written.models[p].xxh3});
  if (written.data.bytes > 0) info.files.push_back({data, written.data.bytes, written.data.xxh3});
  return info;
}

/// Every group along each set of mesh axes that some collective of a stage uses, in any profile.
void append_groups(std::span<const PlannedProfile> profiles, std::size_t stage_index,
                   std::vector<bundle::GroupInfo>& groups) {
  std::set<std::vector<int>> axes_in_use;
  for (const PlannedProfile& profile : profiles)
    for (const program::Instruction& instruction : profile.program.stages[stage_index].instructions)
      if (instruction.is_collective()) axes_in_use.insert(instruction.step.mesh_axes);
  const plan::StagePlan& stage = profiles.front().profile.plan->stages[stage_index];
  const sharding::DeviceMesh& mesh = stage.plan.mesh;
  for (const std::vector<int>& axes : axes_in_use) {
    bundle::GroupInfo& info =
        groups.emplace_back(bundle::GroupInfo{static_cast<int>(stage_index), axes, {}});
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

/// Everything but the ranks and the structure.
bundle::MetaInfo describe(std::span<const PlannedProfile> profiles, const FoundPlans& found,
                          const WriteOptions& options) {
  const PipelinePlan& plan = *profiles.front().profile.plan;
  const Graph& whole = *profiles.front().profile.whole;
  bundle::MetaInfo info;
  info.model = options.model_name;
  info.shards = options.shards;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    info.stages.push_back(stage_info(plan.stages[s], static_cast<int>(s)));
    append_groups(profiles, s, info.groups);
  }
  info.microbatches = plan.microbatches;
  const std::map<std::string, bundle::BatchInfo> uncut;
  for (const auto& [profile, program] : profiles) {
    bundle::ProfileInfo& added = info.profiles.emplace_back(profile_info(
        *profile.whole, plan.microbatches > 1 ? found.batch : uncut, *profile.plan, program));
    added.binding = profile.binding;
    added.weight = profile.weight;
  }
  for (const graph::State& state : whole.states)
    info.states.push_back({whole.value(whole.outputs[state.output]).name,
                           whole.value(whole.inputs[state.input]).name});
  info.device = plan.stages.front().plan.device;
  info.search = name_of(found.report.method);
  info.search_seconds = found.report.search_seconds;
  info.cost_seconds = found.cost_seconds;
  info.lower_bound_seconds = found.report.lower_bound_seconds;
  info.proven_optimal = found.report.proven_optimal;
  info.memory_limit_bytes = options.memory_limit_bytes;
  return info;
}

/// Whether ranks can make graphs for other shapes: of one microbatch, without a tail, where the
/// model is a file and autopar runs it.
bool has_structure(std::span<const PlannedProfile> profiles, const WriteOptions& options) {
  return !options.model_file.empty() && options.tail == nullptr &&
         options.use_collectives == nullptr && profiles.front().profile.plan->microbatches == 1;
}

/// A bundle has each weight at least once, which may be more than the disk has.
void check_disk(const FoundPlans& found, const fs::path& folder, const fs::path& out) {
  std::int64_t least = 0;
  for (const BundleProfile& profile : found.profiles)
    least = std::max(least, weight_bytes(*profile.whole));
  std::error_code unknown;
  const std::uintmax_t free = fs::space(folder, unknown).available;
  if (!unknown && free < static_cast<std::uintmax_t>(least))
    fail("--out {}: the bundle takes {} or more, and the disk has {} free; choose another place",
         out.string(), in_bytes(least), in_bytes(static_cast<std::int64_t>(free)));
}

/// What ranks' files take, each as much as its stage's fullest.
std::int64_t most_weight_bytes(const PipelinePlan& plan) {
  std::int64_t bytes = 0;
  for (const plan::StagePlan& stage : plan.stages)
    bytes += stage.plan.predicted.weight_bytes * stage.num_devices();
  return bytes;
}

bundle::FileInfo file_info(const fs::path& file) {
  return {file.filename(), fs::file_size(file), xxh3_of_file(file)};
}

std::vector<bundle::FileInfo> write_structure(std::span<const PlannedProfile> profiles,
                                              const fs::path& folder, const WriteOptions& options) {
  std::vector<const Graph*> graphs;
  for (const PlannedProfile& profile : profiles) graphs.push_back(profile.profile.whole);
  std::vector<bundle::FileInfo> files = file_infos(
      bundle::structure_file, bundle::structure_data_file,
      graph::save_structure(options.model_file, options.constants, graphs,
                            folder / bundle::structure_file, folder / bundle::structure_data_file));
  const fs::path device = folder / bundle::device_file;
  cost::save_device_file(device, *profiles.front().profile.device);
  files.push_back(file_info(device));
  return files;
}

/// Fills the folder, and `info` with what is told of its files.
void write_files(std::span<const PlannedProfile> profiles, const FoundPlans& found,
                 const WriteOptions& options, const fs::path& folder, bundle::MetaInfo& info) {
  check_disk(found, folder, options.out);
  info.ranks.resize(found.profiles.front().plan->num_devices());
  for (bundle::ProfileInfo& profile : info.profiles) profile.peak_bytes.resize(info.ranks.size());
  // One thread that faults in, digests and writes keeps no disk busy.
  constexpr std::size_t most_ranks_at_a_time = 8;
  expect_work(most_weight_bytes(*found.profiles.front().plan), ProgressListener::Unit::bytes);
  ProgressListener* const listener = progress_listener();
  const auto write_one = [&](std::size_t r) {
    const ProgressScope scope(listener);
    info.ranks[r] = write_rank(profiles, static_cast<int>(r), folder, options, info);
  };
  in_parallel(info.ranks.size(), write_one, most_ranks_at_a_time);
  check_limit(info);
  check_mapped_files_unchanged();  // before the model is read once more
  if (has_structure(profiles, options)) info.structure = write_structure(profiles, folder, options);
  if (options.tail != nullptr) {
    info.tail = write_tail(*options.tail, folder);
    info.ranks.front().weight_bytes += options.tail->summary.weight_bytes;
    info.ranks.front().peak_bytes += options.tail->summary.weight_bytes;
    info.profiles.front().peak_bytes.front() += options.tail->summary.weight_bytes;
  }
  check_mapped_files_unchanged();
  if (options.use_collectives == nullptr) bundle::write_secret(folder);
  const fs::path plan = folder / bundle::plan_file;
  write_file(plan, options.plan_text + '\n');
  info.files = {file_info(plan)};
  write_file(folder / "meta-info.json", bundle::to_json(info).dump(2) + '\n');
}

}  // namespace

void check_output_folder(const BundleOptions& options) {
  if (options.out.empty()) fail("--out: give the bundle's folder");
  const fs::path out = place_of_folder(options.out);
  std::error_code error;
  if (!fs::is_directory(out.parent_path(), error)) {
    fail("--out {}: there is no folder {}; make it first", options.out.string(),
         out.parent_path().string());
  }
  put_back_replaced(out);
  if (!fs::exists(fs::symlink_status(out, error))) return;
  bundle::check_only_bundle(out, "--out " + options.out.string());
  if (!options.force) {
    fail("--out {} exists; choose another folder, or give --force", options.out.string());
  }
}

void publish_folder(const BundleOptions& options,
                    const std::function<void(const fs::path&)>& fill) {
  const fs::path place = place_of_folder(options.out);
  sweep_partial_files(place);
  StagedFolder folder(place);
  fill(folder.path());
  if (options.force)
    folder.replace([&](const fs::path& replaced) {
      bundle::check_only_bundle(replaced, "--out " + options.out.string());
    });
  else
    folder.publish();
}

std::string plan_json(const search::FoundPipeline& found,
                      std::span<const plan::CollectiveUse> collectives, const graph::Tail* tail) {
  nlohmann::json text = plan::plan_json(found.plan, collectives);
  text.at("summary").update(search::to_json(found.report));
  if (tail != nullptr) text["tail"] = bundle::to_json(tail->summary);
  return text.dump(2);
}

bundle::MetaInfo write_bundle(const FoundPlans& found, const WriteOptions& options) {
  check_output_folder({.out = options.out, .force = options.force});
  std::vector<PlannedProfile> profiles;
  for (const BundleProfile& profile : found.profiles)
    profiles.push_back({profile, program::lower(*profile.plan, *profile.device)});
  bundle::MetaInfo info = describe(profiles, found, options);
  publish_folder({.out = options.out, .force = options.force}, [&](const fs::path& folder) {
    write_files(profiles, found, options, folder, info);
  });
  return info;
}

bundle::MetaInfo write_bundle(const Graph& whole,
                              const std::map<std::string, bundle::BatchInfo>& batch,
                              const search::FoundPipeline& found, const cost::DeviceModel& device,
                              const WriteOptions& options) {
  const PipelinePlan& plan = found.plan;
  WriteOptions with_plan = options;
  with_plan.plan_text = plan_json(
      found, program::collective_uses(plan, program::lower(plan, device), device), options.tail);
  return write_bundle({.profiles = {{.whole = &whole, .plan = &plan, .device = &device}},
                       .batch = batch,
                       .cost_seconds = plan.predicted.cost_seconds,
                       .report = found.report},
                      with_plan);
}

std::string write_shards(const Plan& plan, const BundleOptions& options) {
  const FoundPlan& found = plan.contents();
  const LoadedModel& model = *found.model;
  FoundPlans plans{
      .batch = found.ports, .cost_seconds = found.predicted.cost_seconds, .report = found.report};
  for (std::size_t p = 0; p < model.profiles.size(); ++p)
    plans.profiles.push_back({.whole = &model.profiles[p].graph,
                              .plan = &found.profiles[p].plan,
                              .device = &found.profiles[p].device,
                              .binding = model.profiles[p].binding,
                              .weight = model.profiles[p].weight});
  const LoadedProfile& profile = model.profiles.front();
  const auto& [pipeline, device] = found.profiles.front();
  const auto& runtime = shard_flavour(found.shards).runtime;
  const Shown shown(options.progress, "writing " + options.out.string());
  const WriteOptions write{.out = options.out,
                           .model_name = model.options.file.filename(),
                           .force = options.force,
                           .run_bytes = run_bytes_on(device),
                           .tail = profile.tail ? &*profile.tail : nullptr,
                           .model_file = model.options.file,
                           .constants = constants_of(model.options),
                           .plan_text = plan_json(plan),
                           .memory_limit_bytes = found.memory_limit_bytes,
                           .shards = found.shards,
                           .use_collectives = runtime ? runtime->use_collectives : nullptr};
  const bundle::MetaInfo written = json_text([&] { return write_bundle(plans, write); });
  std::string text = assumed_line(assumed_by_all(model.profiles)) + states_line(profile.graph) +
                     plan_headline(found);
  for (const bundle::ProfileInfo& each : written.profiles)
    text += fmt::format("communication of a run{}, over all ranks:\n{}",
                        written.profiles.size() > 1 ? " of " + each.binding : "",
                        collectives_table(each.collectives));
  return profile.tail ? text + tail_text(profile.tail->summary) : text;
}

}  // namespace autopar::planner
