#include "serving/request_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "base/problems.h"
#include "base/staged_folder.h"
#include "runtime/tensor_files.h"
#include "serving/json_tensor.h"

namespace autopar::serving {
namespace {

using graph::Tensor;
using nlohmann::json;
using runtime::ModelPort;

const std::set<std::string> known_fields = {"id", "inputs", "outputs"};

void check_fields(const json& request) {
  if (!request.is_object()) fail("a request is an object, not {}", shown(request));
  for (const auto& [field, value] : request.items())
    if (!known_fields.contains(field))
      fail("{} is no field of a request; it has {}", shown(field), fmt::join(known_fields, ", "));
}

/// {"shape": [1, 0, 64], "data": []}: lists alone cannot tell the dimensions behind an empty one.
Tensor tensor_with_shape(const json& value, graph::DataType type, const std::string& what) {
  if (value.size() != 2 || !value.contains("shape") || !value.contains("data"))
    fail("{}: an object has \"shape\" and \"data\" and nothing else", what);
  graph::Shape shape;
  if (!value["shape"].is_array()) fail("{}: \"shape\" is a list of whole numbers", what);
  for (const json& extent : value["shape"]) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > (std::uint64_t{1} << 62))
      fail("{}: \"shape\" is a list of whole numbers", what);
    shape.push_back(extent.get<std::int64_t>());
  }
  return tensor_of_values(value["data"], type, shape, what);
}

Tensor input_of(const json& value, const ModelPort& port) {
  const std::string what = fmt::format("input '{}'", port.name);
  if (value.is_string()) {
    try {
      return runtime::load_tensor_file(value.get<std::string>());
    } catch (const Error& error) {
      fail("{}: {}", what, error.what());
    }
  }
  if (value.is_null()) fail("{}: null is no tensor; give a file or a list", what);
  if (value.is_object()) return tensor_with_shape(value, port.type, what);
  return tensor_of_nested(value, port.type, what);
}

runtime::NamedTensors inputs_of(const json& given, const std::vector<ModelPort>& ports) {
  if (!given.is_object()) fail("\"inputs\" is {}; give an object, NAME: TENSOR", shown(given));
  runtime::NamedTensors inputs;
  Problems problems;
  for (const auto& [name, value] : given.items()) {
    const auto port = std::ranges::find(ports, name, &ModelPort::name);
    if (port != ports.end()) {
      problems.collect(
          [&, &tensor = value] { inputs.emplace(port->name, input_of(tensor, *port)); });
      continue;
    }
    std::vector<std::string> known;
    for (const ModelPort& each : ports) known.push_back(each.name);
    problems.add("the model has no input {}; it has {}", shown(name), fmt::join(known, ", "));
  }
  problems.throw_if_any();
  return inputs;
}

/// A folder that a stranger's request names is one of its own within ours.
std::filesystem::path folder_of(const std::string& name, const std::filesystem::path& output_dir) {
  if (name.empty() || name.front() == '.' || runtime::safe_file_name(name) != name)
    fail(
        "\"outputs\": {} is no safe name for a folder: use letters, digits, '-', '_', and '.' but "
        "in front",
        shown(name));
  std::filesystem::path folder = output_dir / name;
  if (std::filesystem::exists(folder))
    fail("\"outputs\": {} is there already; name another folder", folder.string());
  return folder;
}

void write_outputs(const runtime::NamedTensors& outputs, const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  if (error) fail("folder {} cannot be made: {}", folder.parent_path().string(), error.message());
  StagedFolder staged(folder);
  for (const auto& [output, file] : output_files(outputs))
    runtime::save_npy(staged.path() / (file + ".npy"), outputs.at(output));
  staged.publish();
}

/// In the form in which inputs may be given.
void append_tensor(std::string& text, const std::string& name, const Tensor& tensor) {
  const std::string what = fmt::format("output '{}'", name);
  if (tensor.elements() > 0) {
    append_nested(text, tensor, what);
    return;
  }
  text += fmt::format("{{\"shape\":{},\"data\":", json(tensor.shape()).dump());
  append_flat(text, tensor, what);
  text += '}';
}

}  // namespace

RequestLine parse_request_line(std::string_view line, const std::vector<ModelPort>& inputs,
                               const std::filesystem::path& output_dir, json& id) {
  const json request = parse_json(line);
  if (request.is_object() && request.contains("id")) {
    if (!request["id"].is_string() && !request["id"].is_number())
      fail("\"id\" is {}; give a text or a number", shown(request["id"]));
    id = request["id"];
  }
  check_fields(request);
  RequestLine parsed{.id = id, .inputs = {}};
  Problems problems;
  problems.collect([&] {
    if (!request.contains("inputs")) fail("\"inputs\" is missing");
    parsed.inputs = inputs_of(request["inputs"], inputs);
  });
  problems.collect([&] {
    if (!request.contains("outputs") || request["outputs"] == "inline") return;
    if (!request["outputs"].is_string())
      fail("\"outputs\" is {}; give \"inline\" or a folder's name", shown(request["outputs"]));
    parsed.folder = folder_of(request["outputs"].get<std::string>(), output_dir);
  });
  problems.throw_if_any();
  return parsed;
}

std::string answer_line(const RequestLine& request, const runtime::RunResult& result) {
  std::string text = fmt::format("{{\"id\":{},\"seconds\":{},\"outputs\":", request.id.dump(),
                                 json(result.run_seconds.front()).dump());
  if (request.folder) {
    write_outputs(result.outputs, *request.folder);
    return text + json(request.folder->string()).dump() + "}\n";
  }
  text += '{';
  for (const auto& [name, tensor] : result.outputs) {
    text += json(name).dump() + ":";
    append_tensor(text, name, tensor);
    text += ',';
  }
  if (text.back() == ',') text.pop_back();
  return text + "}}\n";
}

std::string refusal_line(const json& id, std::string_view error) {
  const auto text = [](const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  return fmt::format("{{\"id\":{},\"error\":{}}}\n", text(id), text(json(error)));
}

std::vector<std::pair<std::string, std::string>> output_files(
    const runtime::NamedTensors& outputs) {
  std::vector<std::pair<std::string, std::string>> files;
  std::set<std::string> taken;
  for (const auto& [output, tensor] : outputs) {
    const std::string safe = runtime::safe_file_name(output);
    std::string name = safe;
    for (int i = 1; !taken.insert(name).second; ++i) name = fmt::format("{}_{}", safe, i);
    files.emplace_back(output, name);
  }
  return files;
}

}  // namespace autopar::serving
