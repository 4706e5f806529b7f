#pragma once

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "graph/graph.h"
#include "graph/onnx/onnx_import.h"

namespace autopar::graph {

/// A model from ONNX's own text form (onnx/docs/Syntax.md).
inline onnx::ModelProto parse_model(const std::string& text) {
  onnx::ModelProto model;
  const auto status = onnx::OnnxParser::Parse(model, text.c_str());
  INFO(status.ErrorMessage());
  REQUIRE(status.IsOK());
  return model;
}

/// A model of one graph, "(float[2] x) => (float[2] y) { y = Relu(x) }".
inline onnx::ModelProto parse_graph(int opset, const std::string& graph) {
  return parse_model(R"(<ir_version: 8, opset_import: ["" : )" + std::to_string(opset) +
                     ", \"com.example\" : 1]> tested " + graph);
}

inline void write_model(const onnx::ModelProto& model, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary);
  REQUIRE(model.SerializeToOstream(&out));
}

inline Graph import(const onnx::ModelProto& model, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  write_model(model, folder / "model.onnx");
  return load_onnx(folder / "model.onnx", options);
}

inline std::string text_of(const Graph& graph, ValueId id) {
  if (id == no_value) return "-";
  const Value& value = graph.value(id);
  if (!value.constant || !value.constant->has_data()) return value.name;
  std::string elements;
  if (value.type == DataType::float32) {
    const Tensor copy = value.constant->contiguous_copy();
    for (const float f : copy.values<float>())
      elements += fmt::format("{}{}", elements.empty() ? "" : ",", f);
  } else {
    for (const std::int64_t i : value.constant->to_int64s())
      elements += fmt::format("{}{}", elements.empty() ? "" : ",", i);
  }
  return value.shape.empty() ? elements : "[" + elements + "]";
}

/// Each node as "y = Squeeze<a=1>(x, [0])": constants by value, others by name.
inline std::vector<std::string> text_of(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes) {
    std::string line;
    for (const ValueId id : node.outputs) line += (line.empty() ? "" : ", ") + text_of(graph, id);
    line += " = " + qualified_op_type(node);
    std::string attributes;
    for (const auto& [name, attribute] : node.attributes) {
      attributes += (attributes.empty() ? "" : ", ") + name + "=";
      if (const auto* i = std::get_if<std::int64_t>(&attribute))
        attributes += fmt::format("{}", *i);
      if (const auto* f = std::get_if<float>(&attribute)) attributes += fmt::format("{}", *f);
      if (const auto* s = std::get_if<std::string>(&attribute)) attributes += *s;
    }
    if (!attributes.empty()) line += "<" + attributes + ">";
    std::string inputs;
    for (const ValueId id : node.inputs)
      inputs += (inputs.empty() ? "" : ", ") + text_of(graph, id);
    lines.push_back(line + "(" + inputs + ")");
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace autopar::graph
