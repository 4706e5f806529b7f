#include "bundle/check_meta_info.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "graph/state.h"
#include "sharding/device_mesh.h"
#include "sharding/tensor_shard_spec.h"

namespace autopar::bundle {
namespace {

using sharding::DeviceMesh;
using sharding::TensorShardSpec;

/// No memory, file or network has more bytes, and sums of a few such numbers fit 64 bits.
constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

template <typename List>
bool has_repetition(const List& list) {
  std::set<typename List::value_type> seen;
  return !std::ranges::all_of(list, [&](const auto& each) { return seen.insert(each).second; });
}

std::vector<std::string> names_of(const auto& named) {
  std::vector<std::string> names;
  for (const auto& each : named) names.push_back(each.name);
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

const PortInfo& port_of(const std::vector<PortInfo>& ports, const std::string& name) {
  return *std::ranges::find(ports, name, &PortInfo::name);
}

class Check {
 public:
  Check(const MetaInfo& info, std::string_view where) : info_(info), where_(where) {}

  void all() {
    that(info_.microbatches > 0, "has no 'microbatches'");
    that(!info_.profiles.empty(), "has no 'profiles'");
    for (const double seconds :
         {info_.search_seconds, info_.cost_seconds, info_.lower_bound_seconds})
      amount(seconds, "plan");
    bytes(info_.memory_limit_bytes, "plan");
    stages();
    ranks();
    groups();
    files();
    for (const ProfileInfo& each : info_.profiles) profile(each);
    bindings();
    microbatches();
    states();
    if (info_.tail) tail(*info_.tail);
  }

 private:
  template <typename... Args>
  void that(bool holds, fmt::format_string<Args...> what, Args&&... args) const {
    if (!holds)
      fail("{} {}; partition the model again", where_,
           fmt::format(what, std::forward<Args>(args)...));
  }
  void amount(double value, std::string_view what) const {
    that(std::isfinite(value) && value >= 0, "has {} in {}, which is no amount", value, what);
  }
  void bytes(std::int64_t value, std::string_view what) const {
    that(value >= 0 && value <= most_bytes, "has {} bytes in {}, which nothing has", value, what);
  }

  /// Throws with this file's name what another part throws with none.
  template <typename Part>
  auto named(const Part& part) const {
    try {
      return part();
    } catch (const Error& error) {
      fail("{}: {}; partition the model again", where_, error.what());
    }
  }

  /// Their ranks are all ranks, in order, and each rank says so.
  void stages() {
    std::size_t next = 0;
    for (std::size_t s = 0; s < info_.stages.size(); ++s) {
      const StageInfo& stage = info_.stages[s];
      that(stage.stage == static_cast<int>(s), "has stage {} in place of stage {}", stage.stage, s);
      amount(stage.seconds, "a stage");
      amount(stage.transfer_seconds, "a stage");
      std::vector<int> sizes;
      for (const MeshAxis& axis : stage.mesh) sizes.push_back(axis.size);
      that(!has_repetition(names_of(stage.mesh)), "has two mesh axes of one name in stage {}", s);
      const DeviceMesh& mesh = meshes_.emplace_back(named([&] { return DeviceMesh(sizes); }));
      that(std::cmp_equal(mesh.num_devices(), stage.ranks.size()), "has {} ranks for a mesh of {}",
           stage.ranks.size(), mesh.num_devices());
      for (const int rank : stage.ranks) {
        that(std::cmp_equal(rank, next) && next < info_.ranks.size() &&
                 info_.ranks[next].stage == static_cast<int>(s),
             "has stages that disagree about rank {}", rank);
        ++next;
      }
    }
    that(next == info_.ranks.size() && next > 0, "has {} ranks, but stages with {}",
         info_.ranks.size(), next);
  }

  const StageInfo& stage_of(const RankInfo& rank) const {
    return info_.stages[static_cast<std::size_t>(rank.stage)];
  }

  void ranks() const {
    for (std::size_t r = 0; r < info_.ranks.size(); ++r) {
      const RankInfo& rank = info_.ranks[r];
      that(std::cmp_equal(rank.rank, r), "has rank {} in place of rank {}", rank.rank, r);
      const DeviceMesh& mesh = meshes_[static_cast<std::size_t>(rank.stage)];
      that(rank.coordinates == mesh.coordinates(rank.rank - stage_of(rank).ranks.front()),
           "has rank {} at another place of its mesh", r);
      bytes(rank.weight_bytes, "a rank");
      bytes(rank.peak_bytes, "a rank");
      that(rank.weight_bytes <= rank.peak_bytes, "has more weights than memory on rank {}", r);
      rank_files(rank);
    }
  }

  void rank_files(const RankInfo& rank) const {
    std::vector<std::string> expected;
    for (std::size_t p = 0; p < info_.profiles.size(); ++p)
      expected.push_back(graph_file(rank.rank, p));
    if (rank.files.size() > expected.size()) expected.push_back(data_file(rank.rank));
    names(rank.files, expected, fmt::format("rank {}", rank.rank));
  }

  void names(const std::vector<FileInfo>& files, const std::vector<std::string>& expected,
             const std::string& whose) const {
    that(files.size() == expected.size(), "has {} files of {} where it needs {}", files.size(),
         whose, expected.size());
    for (std::size_t i = 0; i < files.size(); ++i)
      that(files[i].name == expected[i], "names '{}' as {} of {}, which is no file of the bundle's",
           files[i].name, expected[i], whose);
  }

  /// All groups along the axes, in order.
  void groups() const {
    std::set<std::pair<int, std::vector<int>>> seen;
    for (const GroupInfo& group : info_.groups) {
      that(std::cmp_less(group.stage, meshes_.size()), "has groups of stage {}, which is none",
           group.stage);
      const auto stage = static_cast<std::size_t>(group.stage);
      const DeviceMesh& mesh = meshes_[stage];
      const auto is_axis = [&](int axis) { return axis < mesh.num_axes(); };
      that(!group.mesh_axes.empty() && std::ranges::all_of(group.mesh_axes, is_axis) &&
               !has_repetition(group.mesh_axes),
           "has groups along axes that the mesh of stage {} has not", stage);
      that(seen.emplace(group.stage, group.mesh_axes).second, "has groups of stage {} twice",
           stage);
      std::vector<std::vector<int>> expected;
      for (int rank = 0; rank < mesh.num_devices(); ++rank) {
        if (mesh.index_in_group(rank, group.mesh_axes) != 0) continue;
        std::vector<int>& members = expected.emplace_back(mesh.group(rank, group.mesh_axes));
        for (int& member : members) member += info_.stages[stage].ranks.front();
      }
      that(group.ranks == expected, "has other groups than the mesh of stage {}", stage);
    }
  }

  /// Those that no rank has alone.
  void files() const {
    const bool has_structure = !info_.structure.empty();
    that(!has_structure || (info_.microbatches == 1 && !info_.tail),
         "has a structure beside microbatches or a tail");
    if (has_structure || !info_.files.empty()) names(info_.files, {plan_file}, "the bundle");
    if (has_structure)
      names(info_.structure,
            info_.structure.size() == 2
                ? std::vector<std::string>{structure_file, device_file}
                : std::vector<std::string>{structure_file, structure_data_file, device_file},
            "the structure");
    if (info_.tail)
      names(info_.tail->files,
            info_.tail->files.size() == 1 ? std::vector<std::string>{tail_file}
                                          : std::vector<std::string>{tail_file, tail_data_file},
            "the tail");
  }

  void profile(const ProfileInfo& profile) const {
    amount(profile.weight, "a profile");
    amount(profile.cost_seconds, "a profile");
    that(profile.peak_bytes.size() == info_.ranks.size(), "has 'peak_bytes' of other ranks");
    for (const RankInfo& rank : info_.ranks) {
      const std::int64_t peak = profile.peak_bytes[static_cast<std::size_t>(rank.rank)];
      that(peak <= rank.peak_bytes, "has a profile that needs more memory than rank {}", rank.rank);
    }
    transfers(profile);
    ports(profile.inputs, info_.profiles.front().inputs);
    ports(profile.outputs, info_.profiles.front().outputs);
    collectives(profile);
  }

  /// Messages lead from a stage's ranks to the next one's.
  void transfers(const ProfileInfo& profile) const {
    const auto stage_of = [&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return r < info_.ranks.size() ? info_.ranks[r].stage : -1;
    };
    std::set<std::pair<int, std::string>> seen;
    for (const TransferInfo& transfer : profile.transfers) {
      that(std::cmp_less(transfer.from_stage, info_.stages.size() - 1),
           "has stages that disagree: '{}' is sent from stage {}", transfer.value,
           transfer.from_stage);
      that(seen.emplace(transfer.from_stage, transfer.value).second,
           "has '{}' sent from stage {} twice", transfer.value, transfer.from_stage);
      for (const auto& message : transfer.messages) {
        that(stage_of(message.from) == transfer.from_stage &&
                 stage_of(message.to) == transfer.from_stage + 1,
             "has stages that disagree: '{}' goes from rank {} to rank {}", transfer.value,
             message.from, message.to);
        bytes(message.bytes, "a message");
      }
    }
  }

  /// The same as in the first profile, but for extents.
  void ports(const std::vector<PortInfo>& ports, const std::vector<PortInfo>& of_first) const {
    that(!has_repetition(names_of(ports)), "has two inputs or outputs of one name");
    const auto is_alike = [](const PortInfo& port, const PortInfo& other) {
      return port.name == other.name && port.type == other.type &&
             port.shape.size() == other.shape.size();
    };
    that(std::ranges::equal(ports, of_first, is_alike), "has profiles of other inputs or outputs");
    for (const PortInfo& each : ports) port(each);
  }

  void port(const PortInfo& port) const {
    that(port.type != graph::DataType::undefined && graph::is_possible(port.shape),
         "has '{}' of a type or shape that cannot be", port.name);
    if (port.batch) batch(port);
    const graph::Shape shape = port.microbatch_shape();
    that(graph::is_possible(shape), "has '{}' of a shape that cannot be", port.name);
    that(port.specs.size() == info_.stages.size(), "has '{}' with {} specs for {} stages",
         port.name, port.specs.size(), info_.stages.size());
    that(port.ranges.size() == info_.ranks.size(), "has '{}' for {} ranks of {}", port.name,
         port.ranges.size(), info_.ranks.size());
    const auto is_told = [](const std::string& spec) { return !spec.empty(); };
    that(std::ranges::any_of(port.specs, is_told), "has '{}' on no rank", port.name);
    for (std::size_t s = 0; s < port.specs.size(); ++s) ranges(port, shape, s);
  }

  void batch(const PortInfo& port) const {
    const auto& [dim, rows] = *port.batch;
    that(std::cmp_less(dim, port.shape.size()) && rows > 0,
         "has a 'batch' that does not fit the shape of '{}'", port.name);
    const std::int64_t extent = port.shape[static_cast<std::size_t>(dim)];
    // The last microbatch has a row at least; sizes are divided, since a product may be too large.
    that(extent > 0 && (extent - 1) / rows == info_.microbatches - 1,
         "has microbatches that are not all of '{}'", port.name);
  }

  /// What the stage's ranks have of a microbatch is what the spec says.
  void ranges(const PortInfo& port, const graph::Shape& shape, std::size_t stage) const {
    const std::vector<int>& ranks = info_.stages[stage].ranks;
    const std::string& text = port.specs[stage];
    if (text.empty()) {
      for (const int rank : ranks)
        that(!port.ranges[static_cast<std::size_t>(rank)].has_value(),
             "has '{}' on rank {}, but not on its stage", port.name, rank);
      return;
    }
    const TensorShardSpec spec = named([&] { return TensorShardSpec::parse(text); });
    const DeviceMesh& mesh = meshes_[stage];
    const auto is_axis = [&](int axis) { return axis < mesh.num_axes(); };
    that(spec.dims.size() == shape.size() && !spec.is_partial() &&
             std::ranges::all_of(
                 spec.dims,
                 [&](const std::vector<int>& axes) { return std::ranges::all_of(axes, is_axis); }),
         "has a spec '{}' of '{}' that fits its shape or mesh not", text, port.name);
    for (const int rank : ranks)
      that(port.ranges[static_cast<std::size_t>(rank)] ==
               sharding::local_ranges(spec, shape, mesh, rank - ranks.front()),
           "has 'ranges' of '{}' that are not what its spec {} gives rank {}", port.name, text,
           rank);
  }

  void collectives(const ProfileInfo& profile) const {
    static constexpr std::array<std::string_view, 6> kinds = {
        "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send"};
    std::set<std::pair<std::string, std::vector<int>>> seen;
    for (const CollectiveTotal& total : profile.collectives) {
      that(std::ranges::find(kinds, total.kind) != kinds.end(), "has a collective '{}'",
           total.kind);
      that(seen.emplace(total.kind, total.mesh_axes).second, "has a total of {} twice", total.kind);
      bytes(total.bytes, "a collective");
      bytes(total.count, "a collective's count");
    }
  }

  void bindings() const {
    std::vector<std::string> all;
    for (const ProfileInfo& each : info_.profiles) all.push_back(each.binding);
    that(!has_repetition(all), "has two profiles of one binding");
  }

  /// Microbatches are of one profile, and cut all ports that have the batch into as many.
  void microbatches() const {
    const ProfileInfo& profile = info_.profiles.front();
    const PortInfo* first = nullptr;
    for (const auto* ports : {&profile.inputs, &profile.outputs}) {
      for (const PortInfo& port : *ports) {
        if (!port.batch) continue;
        that(info_.microbatches > 1, "cuts '{}' into one microbatch", port.name);
        if (first == nullptr) first = &port;
        // Extents are as rows are: a batch of 5 may stand in another port as one of 40.
        const auto part = [](const PortInfo& of) {
          return std::pair(of.shape[static_cast<std::size_t>(of.batch->dim)], of.batch->rows);
        };
        const auto own = part(port);
        const auto other = part(*first);
        const auto product = [&](std::int64_t a, std::int64_t b) {
          return named([&] { return checked_multiply(a, b, "a batch's rows"); });
        };
        that(product(own.first, other.second) == product(other.first, own.second),
             "cuts '{}' in another way than '{}'", port.name, first->name);
      }
    }
    that(info_.microbatches == 1 || (first != nullptr && info_.profiles.size() == 1),
         "has microbatches of several profiles, or of nothing");
  }

  void states() const {
    std::vector<std::string> outputs;
    std::vector<std::string> inputs;
    for (const StateInfo& state : info_.states) {
      outputs.push_back(state.output);
      inputs.push_back(state.input);
    }
    that(!has_repetition(outputs) && !has_repetition(inputs), "has a state twice");
    that(info_.states.empty() || info_.microbatches == 1, "has states beside microbatches");
    for (const ProfileInfo& profile : info_.profiles)
      for (const StateInfo& each : info_.states) state(profile, each);
  }

  void state(const ProfileInfo& profile, const StateInfo& state) const {
    that(has(names_of(profile.outputs), state.output) && has(names_of(profile.inputs), state.input),
         "has a state from '{}' to '{}', which are no output and input", state.output, state.input);
    const PortInfo& output = port_of(profile.outputs, state.output);
    const PortInfo& input = port_of(profile.inputs, state.input);
    that(output.type == input.type && output.shape.size() == input.shape.size(),
         "has a state from '{}' to '{}', which has another type or shape", state.output,
         state.input);
    named([&] { return graph::growth_of(output.name, output.shape, input.name, input.shape); });
  }

  /// The tail reads what there is, and makes what nothing else makes.
  void tail(const TailInfo& tail) const {
    const graph::TailSummary& summary = tail.summary;
    bytes(summary.weight_bytes, "the tail");
    that(summary.weight_bytes <= info_.ranks.front().weight_bytes,
         "has more weights of the tail than of rank 0");
    amount(summary.weight_share, "the tail");
    amount(summary.work_share, "the tail");
    const std::vector<std::string> made = names_of(summary.outputs);
    that(!has_repetition(made) && !has_repetition(summary.model_outputs) &&
             !has_repetition(summary.inputs),
         "has a tail that names something twice");
    for (const std::string& name : made)
      that(has(summary.model_outputs, name), "has a tail that makes '{}', which is no output",
           name);
    for (const ProfileInfo& profile : info_.profiles) {
      const std::vector<std::string> inputs = names_of(profile.inputs);
      const std::vector<std::string> outputs = names_of(profile.outputs);
      for (const std::string& name : summary.inputs)
        that(has(inputs, name) || has(outputs, name),
             "has a tail that reads '{}', which nothing makes", name);
      for (const std::string& name : summary.model_outputs)
        that(has(outputs, name) != has(made, name), "has an output '{}', which {}", name,
             has(made, name) ? "is made twice" : "nothing makes");
      for (const std::string& name : outputs)
        that(has(summary.model_outputs, name) || has(summary.inputs, name),
             "has '{}', which is no output of the model and is not read", name);
    }
  }

  const MetaInfo& info_;
  std::string_view where_;
  std::vector<DeviceMesh> meshes_;  ///< by stage
};

}  // namespace

void check_meta_info(const MetaInfo& info, const std::string& where) { Check(info, where).all(); }

}  // namespace autopar::bundle
