#pragma once

#include <onnx/defs/schema.h>

#include <string>
#include <string_view>
#include <vector>

namespace autopar::graph {

/// An operator's schema. Inputs and outputs are names, with '?' behind those that may be left out
/// and '*' behind a variadic one; attributes are names with a type behind a colon: i, f, s, is, fs,
/// ss.
struct SchemaText {
  std::string_view domain;
  std::string_view op_type;
  std::string_view inputs;
  std::string_view outputs;
  std::string_view attributes;
};

using InferShapes = void (*)(onnx::InferenceContext&);

/// A name and how often it comes.
struct Parameter {
  std::string name;
  onnx::OpSchema::FormalParameterOption option = onnx::OpSchema::Single;
};
std::vector<Parameter> parameters(std::string_view text);

/// Registers version 1 of the operator with the SchemaRegistry. Inputs may have any type;
/// outputs have that of the first.
void register_schema(const SchemaText& text, InferShapes infer, bool needs_attributes);

}  // namespace autopar::graph
