#include "bundle/tail_info.h"

#include <algorithm>

#include "bundle/meta_info_json.h"

namespace autopar::graph {

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

}  // namespace autopar::graph

namespace autopar::bundle {

void fields(auto& visit, Like<TailInfo> auto& tail) {
  visit("files", tail.files);
  fields(visit, tail.summary);
}

void check_fields(const JsonReader& reader, const TailInfo& tail) {
  check(reader, !tail.files.empty(), "has no files");
}

namespace {

template <typename Ports>
bool has(const Ports& ports, const std::string& name) {
  return std::ranges::any_of(ports, [&](const auto& port) { return port.name == name; });
}

/// The tail reads what there is, and the model's outputs are made.
void check_tail(const JsonReader& reader, const graph::TailSummary& tail, const MetaInfo& info) {
  for (const std::string& name : tail.inputs)
    check(reader, has(info.inputs, name) || has(info.outputs, name),
          fmt::format("has a tail that reads '{}', which nothing makes", name));
  for (const std::string& name : tail.model_outputs)
    check(reader, has(info.outputs, name) || has(tail.outputs, name),
          fmt::format("has an output '{}', which nothing makes", name));
}

graph::ModelOutput output_of(const PortInfo& port) {
  return {port.name, port.type,
          std::vector<std::optional<std::int64_t>>(port.shape.begin(), port.shape.end())};
}

}  // namespace

json to_json(const graph::TailSummary& tail) { return JsonWriter::write(tail); }

json to_json(const MetaInfo& info, const std::optional<TailInfo>& tail) {
  json whole = to_json(info);
  if (!tail) return whole;
  whole["version"] = meta_info_version_with_tail;
  whole["tail"] = JsonWriter::write(*tail);
  return whole;
}

std::optional<TailInfo> load_tail_info(const std::filesystem::path& bundle_dir,
                                       const MetaInfo& info) {
  const std::filesystem::path file = bundle_dir / "meta-info.json";
  const json parsed = load_meta_info_json(file);
  const JsonReader reader = reader_of(parsed, file);
  if (reader.get<int>("version") != meta_info_version_with_tail) return std::nullopt;
  TailInfo tail = reader.get<TailInfo>("tail");
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
