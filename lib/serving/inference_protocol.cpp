#include "serving/inference_protocol.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/problems.h"
#include "serving/json_tensor.h"

namespace autopar::serving {
namespace {

using graph::DataType;
using graph::Tensor;
using nlohmann::json;
using runtime::ModelPort;

constexpr std::array<std::pair<DataType, std::string_view>, 13> datatypes = {
    {{DataType::boolean, "BOOL"},
     {DataType::uint8, "UINT8"},
     {DataType::uint16, "UINT16"},
     {DataType::uint32, "UINT32"},
     {DataType::uint64, "UINT64"},
     {DataType::int8, "INT8"},
     {DataType::int16, "INT16"},
     {DataType::int32, "INT32"},
     {DataType::int64, "INT64"},
     {DataType::float16, "FP16"},
     {DataType::bfloat16, "BF16"},
     {DataType::float32, "FP32"},
     {DataType::float64, "FP64"}}};

/// Empty where the protocol has no such type.
std::string_view datatype_of(DataType type) {
  const auto found =
      std::ranges::find(datatypes, type, [](const auto& each) { return each.first; });
  return found == datatypes.end() ? "" : found->second;
}

DataType parse_datatype(const json& name, const std::string& what) {
  const auto found = std::ranges::find_if(
      datatypes, [&](const auto& each) { return name.is_string() && name == each.second; });
  if (found == datatypes.end())
    fail(
        "{}: \"datatype\" is {}; it may be BOOL, INT8 to INT64, UINT8 to UINT64, FP16, BF16, FP32 "
        "or FP64",
        what, shown(name));
  return found->first;
}

/// A field of an object, or null.
const json& field(const json& object, const char* name) {
  static const json absent = nullptr;
  const auto found = object.find(name);
  return found == object.end() ? absent : *found;
}

/// The parameters of a request, an input or an output. Those that nobody here knows are hints to
/// other servers, but what would change an answer is refused.
const json& parameters_of(const json& object, const std::string& what) {
  static const json none = json::object();
  const json& parameters = field(object, "parameters");
  if (parameters.is_null()) return none;
  if (!parameters.is_object()) fail("{}: \"parameters\" is {}", what, shown(parameters));
  for (const char* refused : {"classification", "shared_memory_region", "sequence_id"})
    if (parameters.contains(refused) && parameters[refused] != 0)
      fail("{}: parameter \"{}\" is for what this server does not do", what, refused);
  return parameters;
}

bool flag(const json& parameters, const char* name, bool otherwise, const std::string& what) {
  const json& value = field(parameters, name);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) fail("{}: \"{}\" is {}; give true or false", what, name, shown(value));
  return value.get<bool>();
}

graph::Shape shape_of(const json& input, const std::string& what) {
  const json& given = field(input, "shape");
  graph::Shape shape;
  bool is_shape = given.is_array();
  for (std::size_t i = 0; is_shape && i < given.size(); ++i) {
    is_shape =
        given[i].is_number_unsigned() && given[i].get<std::uint64_t>() <= (std::uint64_t{1} << 62);
    if (is_shape) shape.push_back(given[i].get<std::int64_t>());
  }
  if (!is_shape || !graph::is_possible(shape))
    fail("{}: \"shape\" is {}; give a list of whole numbers", what, shown(given));
  return shape;
}

/// Takes a tensor's bytes from the front of those that follow the JSON.
Tensor take_binary(std::string_view& binary, const json& size, DataType type,
                   const graph::Shape& shape, const std::string& what) {
  const auto expected =
      static_cast<std::uint64_t>(graph::bytes_of(type, graph::num_elements(shape)));
  if (!size.is_number_unsigned() || size.get<std::uint64_t>() != expected)
    fail("{}: \"binary_data_size\" is {}, but {} of {} take {} bytes", what, shown(size),
         graph::to_string(shape), name_of(type), expected);
  if (binary.size() < expected)
    fail("{}: {} bytes are wanted behind the JSON, and {} are left", what, expected, binary.size());
  Tensor tensor = Tensor::zeros(type, shape);
  const auto bytes = std::as_bytes(std::span(binary.substr(0, expected)));
  std::ranges::copy(bytes, tensor.mutable_bytes().begin());
  binary.remove_prefix(expected);
  if (type == DataType::boolean)
    for (std::byte& value : tensor.mutable_bytes())
      value = value == std::byte{0} ? std::byte{0} : std::byte{1};
  return tensor;
}

std::string name_of_port(const json& port, const std::vector<ModelPort>& ports, const char* kind) {
  if (!port.is_object()) fail("an {} is {}; give an object", kind, shown(port));
  const json& name = field(port, "name");
  if (!name.is_string()) fail("an {}'s \"name\" is {}; give a text", kind, shown(name));
  if (std::ranges::find(ports, name.get<std::string>(), &ModelPort::name) != ports.end())
    return name.get<std::string>();
  std::vector<std::string> known;
  for (const ModelPort& each : ports) known.push_back(each.name);
  fail("the model has no {} {}; it has {}", kind, shown(name), fmt::join(known, ", "));
}

void add_input(InferenceRequest& request, const json& input, std::string_view& binary,
               const ServedModel& model) {
  const std::string name = name_of_port(input, model.inputs, "input");
  const std::string what = fmt::format("input '{}'", name);
  const DataType type = parse_datatype(field(input, "datatype"), what);
  const graph::Shape shape = shape_of(input, what);
  const json& size = field(parameters_of(input, what), "binary_data_size");
  const json& data = field(input, "data");
  if (data.is_null() == size.is_null())
    fail("{}: give either \"data\" or the parameter \"binary_data_size\"", what);
  Tensor tensor = size.is_null() ? tensor_of_values(data, type, shape, what)
                                 : take_binary(binary, size, type, shape, what);
  if (!request.inputs.emplace(name, std::move(tensor)).second) fail("{} is given twice", what);
}

void add_output(InferenceRequest& request, const json& output, bool are_binary,
                const ServedModel& model) {
  const std::string name = name_of_port(output, model.outputs, "output");
  const std::string what = fmt::format("output '{}'", name);
  const bool is_binary = flag(parameters_of(output, what), "binary_data", are_binary, what);
  if (std::ranges::find(request.outputs, name, &InferenceRequest::Output::name) !=
      request.outputs.end())
    fail("{} is asked for twice", what);
  request.outputs.push_back({name, is_binary});
}

const json& list_of(const json& request, const char* name) {
  const json& list = field(request, name);
  if (!list.is_null() && !list.is_array()) fail("\"{}\" is {}; give a list", name, shown(list));
  return list;
}

json metadata_of(const std::vector<ModelPort>& ports) {
  json list = json::array();
  for (const ModelPort& port : ports) {
    const json shape = port.shape ? json(*port.shape) : json::array({-1});
    list.push_back({{"name", port.name}, {"datatype", datatype_of(port.type)}, {"shape", shape}});
  }
  return list;
}

/// What goes into JSON without its braces, as a part of an object.
std::string member(std::string_view name, const json& value) {
  return fmt::format("\"{}\":{}", name, value.dump());
}

}  // namespace

void check_types(const ServedModel& model) {
  Problems problems;
  for (const auto* ports : {&model.inputs, &model.outputs})
    for (const ModelPort& port : *ports)
      if (datatype_of(port.type).empty())
        problems.add(
            "'{}' is of {}, which the Open Inference Protocol does not have; use run "
            "--requests with files",
            port.name, name_of(port.type));
  problems.throw_if_any();
}

InferenceRequest parse_inference_request(std::string_view body,
                                         std::optional<std::size_t> json_bytes,
                                         const ServedModel& model) {
  if (json_bytes > body.size())
    fail("Inference-Header-Content-Length is {}, but the body has {} bytes", *json_bytes,
         body.size());
  const json told = parse_json(body.substr(0, json_bytes.value_or(body.size())));
  std::string_view binary = json_bytes ? body.substr(*json_bytes) : "";
  if (!told.is_object()) fail("a request is an object, not {}", shown(told));
  InferenceRequest request;
  const json& id = field(told, "id");
  if (!id.is_null() && !id.is_string()) fail("\"id\" is {}; give a text", shown(id));
  if (id.is_string()) request.id = id.get<std::string>();
  const json& parameters = parameters_of(told, "the request");
  const bool are_binary = flag(parameters, "binary_data_output", false, "the request");
  const json& inputs = list_of(told, "inputs");
  if (inputs.is_null()) fail("\"inputs\" is missing");
  for (const json& input : inputs) add_input(request, input, binary, model);
  if (!binary.empty()) fail("{} bytes are left behind the last tensor", binary.size());
  for (const json& output : list_of(told, "outputs"))
    add_output(request, output, are_binary, model);
  if (request.outputs.empty())
    for (const ModelPort& port : model.outputs) request.outputs.push_back({port.name, are_binary});
  return request;
}

InferenceAnswer inference_answer(const ServedModel& model, const InferenceRequest& request,
                                 const runtime::NamedTensors& outputs) {
  std::string text = fmt::format("{{{},{},", member("model_name", model.name),
                                 member("model_version", ServedModel::version));
  if (!request.id.empty()) text += member("id", request.id) + ",";
  text += "\"outputs\":[";
  std::string binary;
  bool has_binary = false;
  for (const auto& [name, is_binary] : request.outputs) {
    const Tensor tensor = outputs.at(name).contiguous_copy();
    text += fmt::format("{{{},{},{},", member("name", name),
                        member("datatype", datatype_of(tensor.type())),
                        member("shape", tensor.shape()));
    if (is_binary) {
      has_binary = true;
      text += fmt::format("\"parameters\":{{\"binary_data_size\":{}}}", tensor.size_bytes());
      const auto bytes = tensor.bytes();
      binary.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else {
      text += "\"data\":";
      append_flat(text, tensor, fmt::format("output '{}'", name));
    }
    text += "},";
  }
  if (text.back() == ',') text.pop_back();
  text += "]}";
  InferenceAnswer answer{.body = {}, .json_bytes = {}};
  if (has_binary) answer.json_bytes = text.size();
  answer.body = std::move(text) + binary;
  return answer;
}

std::string server_metadata(std::string_view server_version) {
  return json{{"name", "autopar"},
              {"version", server_version},
              {"extensions", json::array({"binary_tensor_data"})}}
      .dump();
}

std::string model_metadata(const ServedModel& model) {
  return json{{"name", model.name},
              {"versions", json::array({ServedModel::version})},
              {"platform", "autopar"},
              {"inputs", metadata_of(model.inputs)},
              {"outputs", metadata_of(model.outputs)}}
      .dump();
}

std::string error_message(std::string_view error) {
  std::string line(error);
  std::ranges::replace_if(
      line, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return json{{"error", line}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace autopar::serving
