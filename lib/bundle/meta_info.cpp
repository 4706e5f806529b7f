#include "bundle/meta_info.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "base/file_digest.h"
#include "base/json_fields.h"
#include "base/partial_file.h"
#include "base/read_file.h"
#include "bundle/bundle_folder.h"
#include "bundle/check_meta_info.h"

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

constexpr int format_version = 7;

constexpr JsonWords words{.no_object = "{} is no JSON object; partition the model again",
                          .missing = "{}: field '{}' is missing; partition the model again",
                          .malformed = "{}: field '{}' is malformed; partition the model again"};

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

/// All but the version and the digest.
void fields(auto& visit, Like<MetaInfo> auto& info) {
  visit("model", info.model);
  visit("shards", info.shards);
  visit("stages", info.stages);
  visit("microbatches", info.microbatches);
  visit("files", info.files);
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

namespace {

constexpr std::string_view no_digest = "0000000000000000";

std::string text_of(const std::filesystem::path& file) {
  return read_file(file, "{} cannot be read ({}); give a folder that autopar partition wrote");
}

json parse(const std::string& text, const std::string& file) {
  try {
    return json::parse(text);
  } catch (const json::exception&) {
    fail("{} is no JSON; partition the model again", file);
  }
}

std::string digest_of(std::string_view text) {
  Xxh3Stream stream;
  stream.add(std::as_bytes(std::span(text)));
  return stream.digest();
}

/// Where the first value of "digest" begins; npos where there is none of its length. Inside a
/// string its quotes would have backslashes.
std::size_t place_of_digest(std::string_view text) {
  constexpr std::string_view key = "\"digest\"";
  std::size_t place = text.find(key);
  if (place == std::string_view::npos) return place;
  place = text.find_first_not_of(" :\n", place + key.size());
  if (place == std::string_view::npos || text[place] != '"' ||
      text.size() - place <= no_digest.size() + 1)
    return std::string_view::npos;
  return place + 1;
}

/// The digest is of the text with zeros in its place.
bool is_as_written(std::string text, const std::string& digest) {
  const std::size_t place = place_of_digest(text);
  if (place == std::string::npos || text.compare(place, no_digest.size(), digest) != 0)
    return false;
  text.replace(place, no_digest.size(), no_digest);
  return digest_of(text) == digest;
}

}  // namespace

std::string graph_file(int rank, std::size_t profile) {
  return profile == 0 ? fmt::format("rank{}.onnx", rank)
                      : fmt::format("rank{}.{}.onnx", rank, profile);
}

std::string data_file(int rank) { return fmt::format("rank{}.data", rank); }

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
  return json::parse(sealed_text(std::move(whole)));
}

std::string sealed_text(json meta_info) {
  meta_info["digest"] = no_digest;  // the first by name
  std::string text = meta_info.dump(2) + "\n";
  const std::string digest = digest_of(text);
  return text.replace(place_of_digest(text), digest.size(), digest);
}

namespace {

/// A folder of `partition --shards annotated` has nothing to be run.
void refuse_annotated(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / "meta-info.json", error) &&
      std::filesystem::exists(folder / annotated_file, error))
    fail(
        "{} has a whole model with annotations, not shards that autopar runs; partition without "
        "--shards annotated",
        folder.string());
}

}  // namespace

MetaInfo load_meta_info(const std::filesystem::path& bundle_dir) {
  MetaInfo info = load_meta_info_of_any(bundle_dir);
  if (info.shards != own_shards)
    fail(
        "{}: its shards are for {}, whose collectives autopar does not run; give --shards {} to "
        "autopar partition",
        bundle_dir.string(), info.shards, own_shards);
  return info;
}

MetaInfo load_meta_info_of_any(const std::filesystem::path& bundle_dir) {
  put_back_replaced(bundle_dir);
  refuse_annotated(bundle_dir);
  const std::string file = (bundle_dir / "meta-info.json").string();
  const std::string text = text_of(file);
  const json parsed = parse(text, file);
  const JsonReader reader(parsed, file, words);
  const int version = reader.get<int>("version");
  if (version != format_version)
    fail("{} has version {}, but this build reads {}; partition the model again", file, version,
         format_version);
  if (!is_as_written(text, reader.get<std::string>("digest")))
    fail("{} was changed after it was written; partition the model again", file);
  MetaInfo info;
  fields(reader, info);
  check_meta_info(info, file);
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
