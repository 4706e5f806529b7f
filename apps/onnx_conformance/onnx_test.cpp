#include "onnx_test.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "graph/onnx/onnx_tensor_file.h"

namespace autopar::conformance {
namespace {

namespace fs = std::filesystem;

onnx::ModelProto read_model(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  onnx::ModelProto model;
  if (!stream || !model.ParseFromIstream(&stream)) fail("{} is no ONNX model", file.string());
  return model;
}

std::optional<std::string> kind_of_operator(const onnx::NodeProto& node) {
  if (node.domain().find("training") != std::string::npos) return "training";
  constexpr int training_mode = 2;
  if (node.op_type() == "Dropout" && node.input_size() > training_mode) return "training";
  if (node.op_type().starts_with("String")) return "strings";
  return std::nullopt;
}

std::optional<std::string> kind_of_type(const onnx::TypeProto& type) {
  if (type.has_optional_type()) return "optional";
  if (type.has_sequence_type() || type.has_map_type()) return "sequences";
  if (type.tensor_type().elem_type() == onnx::TensorProto::STRING) return "strings";
  return std::nullopt;
}

std::optional<std::string> skip_reason(const onnx::GraphProto& graph) {
  for (const auto* ports : {&graph.input(), &graph.output()})
    for (const auto& port : *ports)
      if (auto kind = kind_of_type(port.type())) return kind;
  for (const auto& node : graph.node()) {
    if (auto kind = kind_of_operator(node)) return kind;
    for (const auto& attribute : node.attribute())
      if (attribute.has_t() && attribute.t().data_type() == onnx::TensorProto::STRING)
        return "strings";
  }
  return std::nullopt;
}

std::string operators_of(const onnx::GraphProto& graph) {
  std::set<std::string> types;
  for (const auto& node : graph.node())
    if (node.op_type() != "Constant") types.insert(node.op_type());
  return types.size() == 1 ? *types.begin() : "several operators";
}

/// A tensor for each port that the data set has a file for.
std::vector<NamedTensor> read_tensors(const fs::path& folder, const std::string& kind,
                                      const std::vector<std::string>& ports) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const fs::path file = folder / (kind + "_" + std::to_string(i) + ".pb");
    if (fs::exists(file)) tensors.emplace_back(ports[i], graph::load_tensor_proto(file).second);
  }
  return tensors;
}

/// Those that a caller gives: old models list their weights as inputs, too.
std::vector<std::string> input_names(const onnx::GraphProto& graph) {
  std::vector<std::string> names;
  for (const auto& input : graph.input())
    if (std::ranges::find(graph.initializer(), input.name(), &onnx::TensorProto::name) ==
        graph.initializer().end())
      names.push_back(input.name());
  return names;
}

std::vector<std::string> output_names(const onnx::GraphProto& graph) {
  std::vector<std::string> names;
  for (const auto& output : graph.output()) names.push_back(output.name());
  return names;
}

bool draws_random_numbers(const onnx::GraphProto& graph) {
  return std::ranges::any_of(graph.node(), [](const onnx::NodeProto& node) {
    return node.op_type() == "Bernoulli" || node.op_type() == "Multinomial" ||
           node.op_type().starts_with("Random");
  });
}

}  // namespace

std::vector<fs::path> find_tests(const std::vector<fs::path>& folders) {
  std::vector<fs::path> found;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder)) fail("{} is no folder", folder.string());
    const std::size_t before = found.size();
    if (fs::exists(folder / "model.onnx")) found.push_back(folder);
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().filename() == "model.onnx" && entry.path().parent_path() != folder)
        found.push_back(entry.path().parent_path());
    if (found.size() == before)
      fail("{} has no tests: a test is a folder with model.onnx and test_data_set_0",
           folder.string());
  }
  std::ranges::sort(found);
  return found;
}

OnnxTest load_test(const fs::path& folder) {
  OnnxTest test;
  test.folder = folder;
  const onnx::ModelProto model = read_model(test.model());
  test.operators = operators_of(model.graph());
  test.skip_reason = skip_reason(model.graph());
  if (test.skip_reason) return test;
  if (std::ifstream limits(folder / "data.json"); limits) {
    const auto json = nlohmann::json::parse(limits);
    test.relative_tolerance = json.value("rtol", test.relative_tolerance);
    test.absolute_tolerance = json.value("atol", test.absolute_tolerance);
    test.odd_input = json.value("odd_input", test.odd_input);
  }
  test.is_random = draws_random_numbers(model.graph());
  const auto inputs = input_names(model.graph());
  const auto outputs = output_names(model.graph());
  for (int i = 0;; ++i) {
    const fs::path place = folder / ("test_data_set_" + std::to_string(i));
    if (!fs::exists(place)) break;
    test.data_sets.push_back(
        {read_tensors(place, "input", inputs), read_tensors(place, "output", outputs)});
  }
  if (test.data_sets.empty()) fail("{} has no test_data_set_0", folder.string());
  return test;
}

}  // namespace autopar::conformance
