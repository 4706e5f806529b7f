#include "partition/write_bundle.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "graph/error.h"
#include "graph/onnx_export.h"
#include "partition/lowering.h"
#include "partition/memory_prediction.h"
#include "partition/rank_graph.h"
#include "partition/staged_folder.h"

namespace autopar::partition {

namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::ValueId;

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

bundle::RankInfo write_rank(const Graph& shard, const sharding::DeviceMesh& mesh, int rank,
                            const fs::path& folder) {
  const std::string model = fmt::format("rank{}.onnx", rank);
  const std::string data = fmt::format("rank{}.data", rank);
  const graph::WrittenModel written = graph::save_onnx(shard, folder / model, folder / data);
  const MemoryPrediction memory = predict_memory(shard);

  bundle::RankInfo info{.rank = rank,
                        .coordinates = mesh.coordinates(rank),
                        .files = {{model, written.model.bytes, written.model.xxh3}},
                        .weight_bytes = memory.weight_bytes,
                        .peak_bytes = memory.peak_bytes};
  if (written.data.bytes > 0) info.files.push_back({data, written.data.bytes, written.data.xxh3});
  return info;
}

/// A few ranks at a time: one thread that faults in, digests and writes keeps no disk busy. Throws
/// the error of the first rank that has one.
template <typename WriteRank>
std::vector<bundle::RankInfo> write_ranks(int ranks, const WriteRank& write_one) {
  std::vector<bundle::RankInfo> infos(static_cast<std::size_t>(ranks));
  std::vector<std::exception_ptr> errors(infos.size());
  std::atomic<int> next = 0;
  const auto work = [&] {
    for (int rank = next++; rank < ranks; rank = next++) {
      const auto r = static_cast<std::size_t>(rank);
      try {
        infos[r] = write_one(rank);
      } catch (...) {
        errors[r] = std::current_exception();
        next = ranks;
      }
    }
  };
  {
    const int threads = std::min({ranks, 8, static_cast<int>(std::thread::hardware_concurrency())});
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return infos;
}

bundle::PortInfo port_info(const Graph& graph, const search::Plan& plan, ValueId id) {
  const graph::Value& value = graph.value(id);
  const sharding::TensorShardSpec& spec = plan.spec_of(graph, id);
  bundle::PortInfo port{value.name, value.type, value.shape, to_string(spec), {}, {}};
  for (int rank = 0; rank < plan.mesh.num_devices(); ++rank) {
    port.ranges.push_back(sharding::local_ranges(spec, value.shape, plan.mesh, rank));
  }
  return port;
}

/// Every group along each set of mesh axes that some collective of the program uses.
std::vector<bundle::GroupInfo> groups_of(const Program& program, const sharding::DeviceMesh& mesh) {
  std::set<std::vector<int>> axes_in_use;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.is_collective()) axes_in_use.insert(instruction.step.mesh_axes);
  }
  std::vector<bundle::GroupInfo> groups;
  for (const std::vector<int>& axes : axes_in_use) {
    bundle::GroupInfo& info = groups.emplace_back(bundle::GroupInfo{0, axes, {}});
    for (int rank = 0; rank < mesh.num_devices(); ++rank) {
      if (mesh.index_in_group(rank, axes) == 0) info.ranks.push_back(mesh.group(rank, axes));
    }
  }
  return groups;
}

/// Everything but the ranks.
bundle::MetaInfo describe(const Graph& graph, const search::Plan& plan, const Program& program,
                          const std::string& model_name) {
  bundle::MetaInfo info;
  info.model = model_name;
  bundle::StageInfo& stage = info.stages.emplace_back();
  for (int axis = 0; axis < plan.mesh.num_axes(); ++axis) {
    stage.mesh.push_back({fmt::format("axis{}", axis), plan.mesh.axis_size(axis)});
  }
  for (int rank = 0; rank < plan.mesh.num_devices(); ++rank) stage.ranks.push_back(rank);
  info.groups = groups_of(program, plan.mesh);
  for (const ValueId input : graph.inputs) info.inputs.push_back(port_info(graph, plan, input));
  for (const ValueId output : graph.outputs) info.outputs.push_back(port_info(graph, plan, output));
  info.collectives = collective_totals(graph, plan.mesh, program);
  info.device = plan.device;
  info.search = plan.summary.search;
  info.search_seconds = plan.summary.search_seconds;
  info.cost_seconds = plan.summary.cost_seconds;
  info.lower_bound_seconds = plan.summary.lower_bound_seconds;
  info.proven_optimal = plan.summary.proven_optimal;
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

bundle::MetaInfo write_bundle(const Graph& graph, const search::Plan& plan,
                              const sharding::StepPrice& price, const BundleOptions& options) {
  check_output_folder(options);
  const Program program = lower(graph, plan, price);
  bundle::MetaInfo info = describe(graph, plan, program, options.model_name);

  StagedFolder folder(place_of(options.out));
  info.ranks = write_ranks(plan.mesh.num_devices(), [&](int rank) {
    return write_rank(rank_graph(graph, plan, program, rank), plan.mesh, rank, folder.path());
  });
  write_text(folder.path() / "plan.json",
             search::plan_json(graph, plan, collective_uses(graph, plan.mesh, program, price)));
  write_text(folder.path() / "meta-info.json", bundle::to_json(info).dump(2));
  folder.publish();
  return info;
}

}  // namespace autopar::partition
