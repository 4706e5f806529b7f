#include "graph/node_inference.h"

#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <unordered_map>

#include "graph/function_body.h"
#include "graph/model_file.h"
#include "graph/tensor_proto.h"
#include "graph/topological_order.h"

namespace autopar::graph {
namespace {

/// Longer constants tell no shape.
constexpr std::int64_t most_elements_for_inference = 1024;

bool informs_inference(const Value& value) {
  return value.constant && value.constant->has_data() &&
         value.constant->elements() <= most_elements_for_inference &&
         (value.type == DataType::int64 || value.type == DataType::int32 ||
          value.type == DataType::float32 || value.type == DataType::float64);
}

onnx::TypeProto type_of(const Value& value) {
  onnx::TypeProto type;
  auto& tensor = *type.mutable_tensor_type();
  tensor.set_elem_type(static_cast<int>(value.type));
  auto& shape = *tensor.mutable_shape();
  for (const std::int64_t extent : value.shape) shape.add_dim()->set_dim_value(extent);
  return type;
}

/// The messages in which ONNX's inference reads what is known.
struct InputMessages {
  explicit InputMessages(const NodeInContext& context) : node(context.node) {
    for (std::size_t i = 0; i < context.inputs.size(); ++i) {
      const std::string& name = node.input(static_cast<int>(i));
      const Value* value = context.inputs[i];
      if (!value || types.contains(name)) continue;
      type_pointers[name] = &(types[name] = type_of(*value));
      if (informs_inference(*value))
        data_pointers[name] = &(data[name] = tensor_to_proto(name, *value->constant));
    }
  }

  onnx::NodeProto node;
  std::map<std::string, onnx::TypeProto> types;
  std::map<std::string, onnx::TensorProto> data;
  std::unordered_map<std::string, onnx::TypeProto*> type_pointers;
  std::unordered_map<std::string, const onnx::TensorProto*> data_pointers;
};

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

InferredOutput output_of(const onnx::TypeProto& type, const onnx::NodeProto& node,
                         std::string_view where) {
  if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET) return {};
  if (!type.has_tensor_type())
    fail("{}: {} makes a sequence, a map, an optional or a sparse tensor, which are not supported",
         where, describe(node));
  InferredOutput output;
  const auto& tensor = type.tensor_type();
  output.type = static_cast<DataType>(tensor.elem_type());
  if (output.type == DataType::string)
    fail("{}: {} makes strings, which are not supported", where, describe(node));
  if (!tensor.has_shape()) return output;
  Shape shape;
  for (const auto& dim : tensor.shape().dim()) {
    if (!dim.has_dim_value()) return output;
    shape.push_back(dim.dim_value());
  }
  output.shape = std::move(shape);
  return output;
}

/// By the operator's own function for it, else by walking the body that defines it.
void run_inference(const NodeInContext& context, onnx::InferenceContext& inference) {
  const onnx::OpSchema& schema = *context.schema;
  if (schema.has_type_and_shape_inference_function()) {
    schema.GetTypeAndShapeInferenceFunction()(inference);
  } else if (const auto body = schema_function_body(context)) {
    onnx::shape_inference::DataValueMap known_values;
    onnx::shape_inference::InferShapeForFunctionNode(
        body->function, onnx::OpSchemaRegistry::Instance(), inference,
        onnx::ShapeInferenceOptions(true, 1, /*data_prop_val=*/true), {}, nullptr, &known_values);
  }
  schema.CheckInputOutputType(inference);
}

}  // namespace

const onnx::OpSchema& schema_of(const onnx::NodeProto& node,
                                const std::map<std::string, std::int64_t>& opsets,
                                std::string_view where) {
  const std::string domain = canonical_domain(node.domain());
  const auto opset = opsets.find(domain);
  const auto* schema =
      opset == opsets.end()
          ? nullptr
          : onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset->second), domain);
  if (!schema || schema->deprecated())
    fail(
        "{}: {} uses the operator {} of domain '{}', opset {}, which is not known: export the "
        "model with ONNX's own operators or with the function that defines it",
        where, describe(node), node.op_type(), domain.empty() ? "ai.onnx" : domain,
        opset == opsets.end() ? "not imported" : std::to_string(opset->second));
  try {
    schema->Verify(node);
  } catch (const std::exception& error) {
    fail("{}: {} is not what its operator allows: {}", where, describe(node),
         one_line(error.what()));
  }
  return *schema;
}

std::vector<InferredOutput> infer_outputs(const NodeInContext& context, std::string_view where) {
  InputMessages messages(context);
  const std::unordered_map<std::string, const onnx::SparseTensorProto*> no_sparse_data;
  const onnx::ShapeInferenceOptions options(true, 1, false);
  try {
    onnx::shape_inference::InferenceContextImpl inference(
        messages.node, messages.type_pointers, messages.data_pointers, no_sparse_data, options);
    run_inference(context, inference);
    std::vector<InferredOutput> outputs;
    for (const auto& type : inference.allOutputTypes_)
      outputs.push_back(output_of(type, context.node, where));
    return outputs;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail("{}: {} has inputs that do not fit together: {}", where, describe(context.node),
         one_line(error.what()));
  }
}

std::optional<Tensor> propagate_data(const NodeInContext& context, const InferredOutput& output) {
  const bool shape_arithmetic =
      context.schema->has_data_propagation_function() && output.type == DataType::int64 &&
      output.shape && output.shape->size() <= 1 && context.node.output_size() == 1 &&
      std::ranges::all_of(context.inputs, [](const Value* value) {
        return !value || (value->type == DataType::int64 && informs_inference(*value));
      });
  if (!shape_arithmetic) return std::nullopt;
  InputMessages messages(context);
  onnx::shape_inference::DataValueMap known;
  onnx::shape_inference::DataPropagationContextImpl propagation(
      messages.node, messages.type_pointers, messages.data_pointers, known);
  try {
    context.schema->GetDataPropagationFunction()(propagation);
  } catch (const std::exception&) {
    return std::nullopt;  // it does not cover this form
  }
  const auto found = known.find(context.node.output(0));
  if (found == known.end() || found->second.dim_size() != num_elements(*output.shape))
    return std::nullopt;
  std::vector<std::int64_t> values;
  for (const auto& dim : found->second.dim()) {
    if (!dim.has_dim_value()) return std::nullopt;
    values.push_back(dim.dim_value());
  }
  return Tensor::of_int64(*output.shape, values);
}

std::vector<onnx::TypeProto> input_types(const NodeInContext& context) {
  std::vector<onnx::TypeProto> types;
  for (const Value* value : context.inputs)
    types.push_back(value ? type_of(*value) : onnx::TypeProto());
  return types;
}

}  // namespace autopar::graph
