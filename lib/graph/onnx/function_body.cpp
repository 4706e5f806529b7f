#include "graph/onnx/function_body.h"

#include <onnx/shape_inference/attribute_binder.h>

#include <algorithm>

#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {
namespace {

/// The newest of a schema's bodies that a model of this opset may use.
std::int64_t newest_body(const std::vector<int>& versions, std::int64_t opset) {
  std::int64_t newest = 0;
  for (const int version : versions)
    if (version <= opset) newest = std::max<std::int64_t>(newest, version);
  return newest;
}

/// A Scan's rounds are told by shapes, a Loop's by numbers.
bool runs_loop(const onnx::FunctionProto& function) {
  return std::ranges::find(function.node(), "Loop", &onnx::NodeProto::op_type) !=
         function.node().end();
}

}  // namespace

std::optional<FunctionBody> schema_function_body(const NodeInContext& call) {
  const onnx::OpSchema& schema = *call.schema;
  const std::int64_t opset = call.opsets.at(schema.domain());
  FunctionBody body;
  std::int64_t version = newest_body(schema.function_opset_versions(), opset);
  if (version > 0) {
    body.function = *schema.GetFunction(static_cast<int>(version));
  } else {
    version = newest_body(schema.context_dependent_function_opset_versions(), opset);
    const onnx::FunctionBodyBuildContextImpl context(call.node, input_types(call));
    if (version == 0 ||
        !schema.BuildContextDependentFunction(context, body.function, static_cast<int>(version)))
      return std::nullopt;
  }
  if (runs_loop(body.function)) return std::nullopt;
  if (body.function.output().empty()) schema.BuildFunction(body.function);
  onnx::NodeProto caller = call.node;
  for (const auto& [name, attribute] : schema.attributes())
    if (attribute.default_value.has_name()) add_default(caller, attribute.default_value);
  onnx::internal::AttributeBinder::BindAttributes(caller, body.function);
  body.opsets = call.opsets;
  for (const auto& [domain, imported] : opsets_of(body.function.opset_import()))
    body.opsets[domain] = imported;
  body.opsets[schema.domain()] = version;
  return body;
}

FunctionBody local_function_body(const onnx::NodeProto& call, const onnx::FunctionProto& function) {
  FunctionBody body{function, opsets_of(function.opset_import())};
  onnx::NodeProto caller = call;
  for (const auto& attribute : function.attribute_proto()) add_default(caller, attribute);
  onnx::internal::AttributeBinder::BindAttributes(caller, body.function);
  return body;
}

}  // namespace autopar::graph
