#include "bundle/meta_info.h"

#include <algorithm>
#include <fstream>
#include <tuple>

#include "base/json_fields.h"

namespace autopar {

template <>
struct JsonValue<graph::Range> {
  static json of(const graph::Range& range) { return {range.begin, range.end}; }
  static graph::Range from(const json& value) {
    if (!value.is_array() || value.size() != 2) throw MalformedJson{};
    const graph::Range range{JsonValue<std::int64_t>::from(value[0]),
                             JsonValue<std::int64_t>::from(value[1])};
    if (range.begin > range.end) throw MalformedJson{};
    return range;
  }
};

template <>
struct JsonValue<graph::DataType> {
  static json of(graph::DataType type) { return name_of(type); }
  static graph::DataType from(const json& value) {
    try {
      return graph::parse_data_type(value.get<std::string>());
    } catch (const Error&) {
      throw MalformedJson{};
    }
  }
};

namespace graph {

void fields(auto& visit, Like<ModelOutput> auto& output) {
  visit("name", output.name);
  visit("type", output.type);
  visit("dims", output.dims);
}

void fields(auto& visit, Like<TailSummary> auto& tail) {
  visit("inputs", tail.inputs);
  visit("outputs", tail.outputs);
  visit("model_outputs", tail.model_outputs);
  visit("nodes", tail.nodes);
  visit("first_node", tail.first_node);
  visit("reason", tail.reason);
  visit("weight_bytes", tail.weight_bytes);
  visit("weight_share", tail.weight_share);
  visit("work_share", tail.work_share);
}

}  // namespace graph

namespace bundle {

namespace {

constexpr int format_version = 5;

constexpr JsonWords words{.no_object = "{} is no JSON object; partition the model again",
                          .missing = "{}: field '{}' is missing; partition the model again",
                          .malformed = "{}: field '{}' is malformed; partition the model again"};

/// Throws Error, with the place, where something is wrong.
void check(const JsonReader& reader, bool holds, const std::string& what) {
  if (!holds) fail("{} {}; partition the model again", reader.where(), what);
}

}  // namespace

void fields(auto& visit, Like<FileInfo> auto& file) {
  visit("name", file.name);
  visit("bytes", file.bytes);
  visit("xxh3", file.xxh3);
}

void fields(auto& visit, Like<BatchInfo> auto& batch) {
  visit("dim", batch.dim);
  visit("rows", batch.rows);
}

void fields(auto& visit, Like<PortInfo> auto& port) {
  visit("name", port.name);
  visit("type", port.type);
  visit("shape", port.shape);
  visit("specs", port.specs);
  visit("batch", port.batch);
  visit("ranges", port.ranges);
}

void fields(auto& visit, Like<RankInfo> auto& rank) {
  visit("rank", rank.rank);
  visit("stage", rank.stage);
  visit("coordinates", rank.coordinates);
  visit("files", rank.files);
  visit("weight_bytes", rank.weight_bytes);
  visit("peak_bytes", rank.peak_bytes);
}

void fields(auto& visit, Like<MeshAxis> auto& axis) {
  visit("name", axis.name);
  visit("size", axis.size);
}

void fields(auto& visit, Like<StageInfo> auto& stage) {
  visit("stage", stage.stage);
  visit("mesh", stage.mesh);
  visit("ranks", stage.ranks);
  visit("seconds", stage.seconds);
  visit("transfer_seconds", stage.transfer_seconds);
}

void fields(auto& visit, Like<GroupInfo> auto& group) {
  visit("stage", group.stage);
  visit("mesh_axes", group.mesh_axes);
  visit("ranks", group.ranks);
}

void fields(auto& visit, Like<TransferInfo::Message> auto& message) {
  visit("from", message.from);
  visit("to", message.to);
  visit("bytes", message.bytes);
}

void fields(auto& visit, Like<TransferInfo> auto& transfer) {
  visit("value", transfer.value);
  visit("from_stage", transfer.from_stage);
  visit("messages", transfer.messages);
}

void fields(auto& visit, Like<StateInfo> auto& state) {
  visit("output", state.output);
  visit("input", state.input);
}

void fields(auto& visit, Like<CollectiveTotal> auto& total) {
  visit("kind", total.kind);
  visit("mesh_axes", total.mesh_axes);
  visit("count", total.count);
  visit("bytes", total.bytes);
}

void fields(auto& visit, Like<ProfileInfo> auto& profile) {
  visit("binding", profile.binding);
  visit("weight", profile.weight);
  visit("cost_seconds", profile.cost_seconds);
  visit("peak_bytes", profile.peak_bytes);
  visit("transfers", profile.transfers);
  visit("inputs", profile.inputs);
  visit("outputs", profile.outputs);
  visit("collectives", profile.collectives);
}

void fields(auto& visit, Like<TailInfo> auto& tail) {
  visit("files", tail.files);
  fields(visit, tail.summary);
}

/// All but the version.
void fields(auto& visit, Like<MetaInfo> auto& info) {
  visit("model", info.model);
  visit("stages", info.stages);
  visit("microbatches", info.microbatches);
  visit("ranks", info.ranks);
  visit("groups", info.groups);
  visit("profiles", info.profiles);
  visit("states", info.states);
  visit("structure", info.structure);
  visit("tail", info.tail);
  visit.inside("plan", [&](auto& plan) {
    plan("search", info.search);
    plan("seconds", info.search_seconds);
    plan("cost_seconds", info.cost_seconds);
    plan("lower_bound_seconds", info.lower_bound_seconds);
    plan("proven_optimal", info.proven_optimal);
    plan("memory_limit_bytes", info.memory_limit_bytes);
    plan("device", info.device);
  });
}

void check_fields(const JsonReader& reader, const FileInfo& file) {
  const std::filesystem::path name = file.name;
  check(reader, !name.empty() && name.filename() == name && name != "." && name != "..",
        fmt::format("names '{}', which is no file of the bundle", file.name));
}

void check_fields(const JsonReader& reader, const PortInfo& port) {
  check(reader, !port.batch || (port.batch->dim < std::ssize(port.shape) && port.batch->rows > 0),
        "has a 'batch' that does not fit its shape");
  const auto fits = [](const graph::Range& range, std::int64_t extent) {
    return range.end <= extent;
  };
  const graph::Shape shape = port.microbatch_shape();
  for (const auto& of_rank : port.ranges) {
    check(
        reader,
        !of_rank || (of_rank->size() == shape.size() && std::ranges::equal(*of_rank, shape, fits)),
        "has 'ranges' that do not fit its shape");
  }
}

void check_fields(const JsonReader& reader, const RankInfo& rank) {
  check(reader, !rank.files.empty(), "has no files");
}

void check_fields(const JsonReader& reader, const TailInfo& tail) {
  check(reader, !tail.files.empty(), "has no files");
}

void check_fields(const JsonReader& reader, const StageInfo& stage) {
  std::size_t devices = 1;
  for (const MeshAxis& axis : stage.mesh) devices *= axis.size;
  check(reader, devices == stage.ranks.size() && devices > 0,
        fmt::format("has {} ranks for a mesh of {}", stage.ranks.size(), devices));
}

namespace {

/// The stages' ranks are all ranks, in order, and each rank says so.
void check_stages(const JsonReader& reader, const MetaInfo& info) {
  std::size_t next = 0;
  for (std::size_t s = 0; s < info.stages.size(); ++s) {
    check(reader, info.stages[s].stage == static_cast<int>(s),
          fmt::format("has stage {} in place of stage {}", info.stages[s].stage, s));
    for (const int rank : info.stages[s].ranks) {
      check(reader,
            rank == static_cast<int>(next) && next < info.ranks.size() &&
                info.ranks[next].stage == static_cast<int>(s),
            fmt::format("has stages that disagree about rank {}", rank));
      ++next;
    }
  }
  check(reader, next == info.ranks.size() && next > 0,
        fmt::format("has {} ranks, but stages with {}", info.ranks.size(), next));
}

/// Messages lead from a stage's ranks to the next one's.
void check_transfers(const JsonReader& reader, const MetaInfo& info, const ProfileInfo& profile) {
  const auto stage_of = [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return r < info.ranks.size() ? info.ranks[r].stage : -1;
  };
  for (const TransferInfo& transfer : profile.transfers) {
    for (const auto& message : transfer.messages) {
      check(reader,
            stage_of(message.from) == transfer.from_stage &&
                stage_of(message.to) == transfer.from_stage + 1,
            fmt::format("has stages that disagree: '{}' goes from rank {} to rank {}",
                        transfer.value, message.from, message.to));
    }
  }
}

/// What a profile tells by rank.
void check_profile(const JsonReader& reader, const MetaInfo& info, const ProfileInfo& profile) {
  const std::size_t ranks = info.ranks.size();
  check(reader, profile.peak_bytes.size() == ranks, "has 'peak_bytes' of other ranks");
  check_transfers(reader, info, profile);
  for (const auto* ports : {&profile.inputs, &profile.outputs}) {
    for (const PortInfo& port : *ports) {
      check(reader, port.ranges.size() == ranks,
            fmt::format("has '{}' for {} ranks of {}", port.name, port.ranges.size(), ranks));
      const bool is_covered =
          !port.batch || port.batch->rows * info.microbatches >= port.shape[port.batch->dim];
      check(reader, is_covered,
            fmt::format("has microbatches that are not all of '{}'", port.name));
      check(
          reader,
          std::ranges::any_of(port.ranges, [](const auto& of_rank) { return of_rank.has_value(); }),
          fmt::format("has '{}' on no rank", port.name));
    }
  }
}

/// What one part says of another: stages and ranks, and whatever is told by rank.
void check_consistency(const JsonReader& reader, const MetaInfo& info) {
  check(reader, info.microbatches > 0, "has no 'microbatches'");
  check(reader, !info.profiles.empty(), "has no 'profiles'");
  for (std::size_t r = 0; r < info.ranks.size(); ++r) {
    check(reader, info.ranks[r].rank == static_cast<int>(r),
          fmt::format("has rank {} in place of rank {}", info.ranks[r].rank, r));
    const std::size_t files = info.ranks[r].files.size();
    check(reader, files == info.profiles.size() || files == info.profiles.size() + 1,
          fmt::format("has {} files of rank {} for {} profiles", files, r, info.profiles.size()));
  }
  check_stages(reader, info);
  for (const ProfileInfo& profile : info.profiles) check_profile(reader, info, profile);
}

template <typename Ports>
bool has(const Ports& ports, const std::string& name) {
  return std::ranges::any_of(ports, [&](const auto& port) { return port.name == name; });
}

/// The tail reads what there is, and the model's outputs are made.
void check_tail(const JsonReader& reader, const graph::TailSummary& tail,
                const ProfileInfo& profile) {
  for (const std::string& name : tail.inputs)
    check(reader, has(profile.inputs, name) || has(profile.outputs, name),
          fmt::format("has a tail that reads '{}', which nothing makes", name));
  for (const std::string& name : tail.model_outputs)
    check(reader, has(profile.outputs, name) || has(tail.outputs, name),
          fmt::format("has an output '{}', which nothing makes", name));
}

json parse_file(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) fail("{} cannot be read; give a folder that autopar partition wrote", file.string());
  try {
    return json::parse(stream);
  } catch (const std::exception&) {  // no JSON, or a folder
    fail("{} is no JSON; partition the model again", file.string());
  }
}

}  // namespace

graph::Shape PortInfo::microbatch_shape() const {
  graph::Shape result = shape;
  if (batch) result[batch->dim] = batch->rows;
  return result;
}

void add_collective(std::vector<CollectiveTotal>& totals, const CollectiveTotal& more) {
  const auto key = [](const CollectiveTotal& total) {
    return std::tie(total.kind, total.mesh_axes);
  };
  const auto place = std::ranges::lower_bound(totals, key(more), {}, key);
  if (place != totals.end() && key(*place) == key(more)) {
    place->count += more.count;
    place->bytes += more.bytes;
  } else {
    totals.insert(place, more);
  }
}

json to_json(const std::vector<CollectiveTotal>& totals) { return JsonWriter::write(totals); }

json to_json(const graph::TailSummary& tail) { return JsonWriter::write(tail); }

json to_json(const MetaInfo& info) {
  json whole = JsonWriter::write(info);
  whole["version"] = format_version;
  return whole;
}

MetaInfo load_meta_info(const std::filesystem::path& bundle_dir) {
  const std::filesystem::path file = bundle_dir / "meta-info.json";
  const json parsed = parse_file(file);
  const JsonReader reader(parsed, file.string(), words);
  const int version = reader.get<int>("version");
  check(reader, version == format_version,
        fmt::format("has version {}, but this build reads {}", version, format_version));
  MetaInfo info;
  fields(reader, info);
  check_consistency(reader, info);
  for (const ProfileInfo& profile : info.profiles)
    if (info.tail) check_tail(reader, info.tail->summary, profile);
  return info;
}

std::vector<graph::ModelOutput> model_outputs(const MetaInfo& info, const ProfileInfo& profile) {
  std::vector<graph::ModelOutput> made;
  for (const PortInfo& port : profile.outputs) {
    const std::vector<std::optional<std::int64_t>> dims(port.shape.begin(), port.shape.end());
    made.push_back({port.name, port.type, dims});
  }
  if (!info.tail) return made;
  made.insert(made.end(), info.tail->summary.outputs.begin(), info.tail->summary.outputs.end());
  std::vector<graph::ModelOutput> result;
  for (const std::string& name : info.tail->summary.model_outputs)
    result.push_back(*std::ranges::find(made, name, &graph::ModelOutput::name));
  return result;
}

}  // namespace bundle
}  // namespace autopar
