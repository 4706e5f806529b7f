#include "graph/onnx/schema_text.h"

#include <iterator>
#include <sstream>

#include "graph/onnx/schema_registry.h"

namespace autopar::graph {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

AttributeProto::AttributeType attribute_type(std::string_view letters) {
  if (letters == "i") return AttributeProto::INT;
  if (letters == "f") return AttributeProto::FLOAT;
  if (letters == "s") return AttributeProto::STRING;
  if (letters == "is") return AttributeProto::INTS;
  return letters == "fs" ? AttributeProto::FLOATS : AttributeProto::STRINGS;
}

}  // namespace

std::vector<Parameter> parameters(std::string_view text) {
  std::vector<Parameter> result;
  for (std::string& word : words(text)) {
    const char last = word.back();
    if (last == '?' || last == '*') word.pop_back();
    result.push_back({word, last == '?'   ? OpSchema::Optional
                            : last == '*' ? OpSchema::Variadic
                                          : OpSchema::Single});
  }
  return result;
}

void register_schema(const SchemaText& text, InferShapes infer, bool needs_attributes) {
  OpSchema schema;
  schema.SetName(std::string(text.op_type)).SetDomain(std::string(text.domain)).SinceVersion(1);
  int place = 0;
  for (const auto& [name, option] : parameters(text.inputs)) {
    const std::string type = "T" + std::to_string(place);
    schema.Input(place++, name, name, type, option, false);
    schema.TypeConstraint(type, OpSchema::all_tensor_types_ir10(), name);
  }
  if (place == 0) schema.TypeConstraint("T0", OpSchema::all_tensor_types_ir10(), "any tensor");
  place = 0;
  for (const auto& [name, option] : parameters(text.outputs))
    schema.Output(place++, name, name, "T0", option);
  for (const std::string& word : words(text.attributes)) {
    const auto colon = word.find(':');
    schema.Attr(word.substr(0, colon), word, attribute_type(word.substr(colon + 1)),
                needs_attributes);
  }
  if (infer != nullptr) schema.TypeAndShapeInferenceFunction(infer);
  SchemaRegistry::instance().add(std::move(schema));
}

}  // namespace autopar::graph
