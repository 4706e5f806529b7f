#include "partition/write_bundle.h"

#include <unistd.h>

#include <fstream>
#include <set>
#include <system_error>

#include "graph/arena.h"
#include "graph/error.h"
#include "graph/onnx_export.h"
#include "partition/lowering.h"
#include "partition/rank_graph.h"

namespace autopar::partition {

namespace {

namespace fs = std::filesystem;
using graph::Graph;
using graph::ValueId;

/// A folder beside its final place; removed unless it was moved there.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& out)
      : path_(out.string() + ".partial-" + std::to_string(getpid())) {
    std::error_code error;
    fs::remove_all(path_, error);
    if (!fs::create_directories(path_, error) || error) {
      fail("cannot create {}: {}; choose another --out", path_.string(), error.message());
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const fs::path& path() const { return path_; }

  /// An old bundle is set aside first, and comes back where the new one cannot take its place.
  void move_to(const fs::path& out) {
    const fs::path old = path_.string() + ".old";
    std::error_code error;
    const bool replaces = fs::exists(out);
    if (replaces) fs::rename(out, old, error);
    if (!error) fs::rename(path_, out, error);
    if (error) {
      std::error_code ignored;
      if (replaces && !fs::exists(out)) fs::rename(old, out, ignored);
      fail("cannot move the bundle to {}: {}", out.string(), error.message());
    }
    if (replaces) fs::remove_all(old, error);
  }

 private:
  fs::path path_;
};

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text << '\n';
  stream.close();
  if (!stream) fail("cannot write {}: the disk may be full; free some space", file.string());
}

std::int64_t constant_bytes(const Graph& shard) {
  std::int64_t bytes = 0;
  for (const graph::Value& value : shard.values) {
    if (value.constant) bytes += value.constant->size_bytes();
  }
  return bytes;
}

bundle::RankInfo write_rank(const Graph& shard, const sharding::DeviceMesh& mesh, int rank,
                            const fs::path& folder) {
  const std::string name = "rank" + std::to_string(rank);
  const fs::path model = folder / (name + ".onnx");
  const fs::path data = folder / (name + ".data");
  const graph::WrittenModel written = graph::save_onnx(shard, model, data);

  bundle::RankInfo info;
  info.rank = rank;
  info.coordinates = mesh.coordinates(rank);
  info.files.push_back({model.filename().string(), written.model.bytes, written.model.xxh3});
  if (written.data.bytes > 0) {
    info.files.push_back({data.filename().string(), written.data.bytes, written.data.xxh3});
  }
  info.weight_bytes = constant_bytes(shard);
  info.peak_bytes = info.weight_bytes + graph::plan_arena(graph::value_lifetimes(shard)).bytes;
  return info;
}

bundle::PortInfo port_info(const Graph& graph, const search::Plan& plan, ValueId id) {
  const graph::Value& value = graph.value(id);
  const sharding::TensorShardSpec& spec = plan.spec_of(graph, id);
  bundle::PortInfo port{value.name, value.type, value.shape, to_string(spec), {}};
  for (int rank = 0; rank < plan.mesh.num_devices(); ++rank) {
    port.ranges.push_back(sharding::local_ranges(spec, value.shape, plan.mesh, rank));
  }
  return port;
}

/// Every group along each set of mesh axes that some collective of the program uses.
std::vector<bundle::GroupInfo> groups_of(const Program& program, const sharding::DeviceMesh& mesh) {
  std::set<std::vector<int>> axes_in_use;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node == graph::no_node && instruction.step.kind != sharding::StepKind::slice) {
      axes_in_use.insert(instruction.step.mesh_axes);
    }
  }
  std::vector<bundle::GroupInfo> groups;
  for (const std::vector<int>& axes : axes_in_use) {
    bundle::GroupInfo info{axes, {}};
    for (int rank = 0; rank < mesh.num_devices(); ++rank) {
      if (mesh.index_in_group(rank, axes) == 0) info.ranks.push_back(mesh.group(rank, axes));
    }
    groups.push_back(std::move(info));
  }
  return groups;
}

bundle::MetaInfo describe(const Graph& graph, const search::Plan& plan, const Program& program,
                          const std::string& model_name) {
  bundle::MetaInfo info;
  info.model = model_name;
  for (int axis = 0; axis < plan.mesh.num_axes(); ++axis) {
    info.mesh.push_back({"axis" + std::to_string(axis), plan.mesh.axis_size(axis)});
  }
  bundle::StageInfo stage;
  for (int rank = 0; rank < plan.mesh.num_devices(); ++rank) stage.ranks.push_back(rank);
  info.stages.push_back(stage);
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
  const fs::path& out = options.out;
  if (!fs::exists(out)) return;
  if (!fs::exists(out / "meta-info.json")) {
    fail("--out {} exists and is no bundle: choose another folder", out.string());
  }
  if (!options.force) fail("--out {} exists: choose another folder, or --force", out.string());
}

bundle::MetaInfo write_bundle(const Graph& graph, const search::Plan& plan,
                              const sharding::StepPrice& price, const BundleOptions& options) {
  check_output_folder(options);
  const Program program = lower(graph, plan, price);
  bundle::MetaInfo info = describe(graph, plan, program, options.model_name);

  const fs::path out = options.out.has_filename() ? options.out : options.out.parent_path();
  TemporaryFolder folder(out);
  for (int rank = 0; rank < plan.mesh.num_devices(); ++rank) {
    const Graph shard = rank_graph(graph, plan, program, rank);
    info.ranks.push_back(write_rank(shard, plan.mesh, rank, folder.path()));
  }
  write_text(folder.path() / "plan.json", search::plan_json(graph, plan));
  write_text(folder.path() / "meta-info.json", bundle::to_json(info).dump(2));
  folder.move_to(out);
  return info;
}

}  // namespace autopar::partition
