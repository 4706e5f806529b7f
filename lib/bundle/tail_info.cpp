#include "bundle/tail_info.h"

#include <algorithm>

#include "bundle/json_reader.h"

namespace autopar::bundle {

namespace {

json output_json(const graph::ModelOutput& output) {
  json dims;
  if (output.dims) {
    dims = json::array();
    for (const auto& extent : *output.dims) dims.push_back(extent ? json(*extent) : json(nullptr));
  }
  return {{"name", output.name}, {"type", name_of(output.type)}, {"dims", dims}};
}

json tail_json(const TailInfo& tail) {
  json whole = to_json(tail.summary);
  whole["files"] = to_json(tail.files);
  return whole;
}

graph::ModelOutput read_output(const Reader& reader) {
  using Dims = std::vector<std::optional<std::int64_t>>;
  return {reader.get<std::string>("name"), reader.get<graph::DataType>("type"),
          reader.get<std::optional<Dims>>("dims")};
}

TailInfo read_tail(const Reader& reader) {
  TailInfo tail;
  tail.files = reader.list("files", read_file);
  reader.check(!tail.files.empty(), "has no files");
  tail.summary.inputs = reader.get<std::vector<std::string>>("inputs");
  tail.summary.outputs = reader.list("outputs", read_output);
  tail.summary.model_outputs = reader.get<std::vector<std::string>>("model_outputs");
  tail.summary.nodes = reader.get<std::int64_t>("nodes");
  tail.summary.first_node = reader.get<std::string>("first_node");
  tail.summary.reason = reader.get<std::string>("reason");
  tail.summary.weight_bytes = reader.get<std::int64_t>("weight_bytes");
  tail.summary.weight_share = reader.get<double>("weight_share");
  tail.summary.work_share = reader.get<double>("work_share");
  return tail;
}

template <typename Ports>
bool has(const Ports& ports, const std::string& name) {
  return std::ranges::any_of(ports, [&](const auto& port) { return port.name == name; });
}

/// The tail reads what there is, and the model's outputs are made.
void check_tail(const Reader& reader, const graph::TailSummary& tail, const MetaInfo& info) {
  for (const std::string& name : tail.inputs)
    reader.check(has(info.inputs, name) || has(info.outputs, name),
                 fmt::format("has a tail that reads '{}', which nothing makes", name));
  for (const std::string& name : tail.model_outputs)
    reader.check(has(info.outputs, name) || has(tail.outputs, name),
                 fmt::format("has an output '{}', which nothing makes", name));
}

graph::ModelOutput output_of(const PortInfo& port) {
  return {port.name, port.type,
          std::vector<std::optional<std::int64_t>>(port.shape.begin(), port.shape.end())};
}

}  // namespace

json to_json(const graph::TailSummary& tail) {
  json outputs = json::array();
  for (const graph::ModelOutput& output : tail.outputs) outputs.push_back(output_json(output));
  return {{"inputs", tail.inputs},
          {"outputs", outputs},
          {"model_outputs", tail.model_outputs},
          {"nodes", tail.nodes},
          {"first_node", tail.first_node},
          {"reason", tail.reason},
          {"weight_bytes", tail.weight_bytes},
          {"weight_share", tail.weight_share},
          {"work_share", tail.work_share}};
}

json to_json(const MetaInfo& info, const std::optional<TailInfo>& tail) {
  json whole = to_json(info);
  if (!tail) return whole;
  whole["version"] = meta_info_version_with_tail;
  whole["tail"] = tail_json(*tail);
  return whole;
}

std::optional<TailInfo> load_tail_info(const std::filesystem::path& bundle_dir,
                                       const MetaInfo& info) {
  const std::filesystem::path file = bundle_dir / "meta-info.json";
  const json parsed = load_meta_info_json(file);
  const Reader reader(parsed, file.string());
  if (reader.get<int>("version") != meta_info_version_with_tail) return std::nullopt;
  TailInfo tail = read_tail(reader.object("tail"));
  check_tail(reader, tail.summary, info);
  return tail;
}

std::vector<graph::ModelOutput> model_outputs(const MetaInfo& info,
                                              const std::optional<TailInfo>& tail) {
  std::vector<graph::ModelOutput> made;
  for (const PortInfo& port : info.outputs) made.push_back(output_of(port));
  if (!tail) return made;
  made.insert(made.end(), tail->summary.outputs.begin(), tail->summary.outputs.end());
  std::vector<graph::ModelOutput> result;
  for (const std::string& name : tail->summary.model_outputs)
    result.push_back(*std::ranges::find(made, name, &graph::ModelOutput::name));
  return result;
}

}  // namespace autopar::bundle
