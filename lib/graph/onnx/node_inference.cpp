#include "graph/onnx/node_inference.h"

#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <unordered_map>

#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/collective_schemas.h"
#include "graph/onnx/einsum_equation.h"
#include "graph/onnx/function_body.h"
#include "graph/onnx/model_file.h"
#include "graph/onnx/node_conversion.h"
#include "graph/onnx/node_to_proto.h"
#include "graph/onnx/operands/check_operands.h"
#include "graph/onnx/operands/check_results.h"
#include "graph/onnx/operator_advice.h"
#include "graph/onnx/schema_registry.h"
#include "graph/onnx/tensor_proto.h"
#include "graph/onnx/topological_order.h"
#include "graph/operators/library_operator.h"

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

/// Attributes that ONNX's inference takes for 0 where they are absent.
struct MissedDefault {
  std::string_view op_type;
  const char* attribute;
  std::int64_t value;
};
constexpr std::array<MissedDefault, 1> missed_defaults = {{{"STFT", "onesided", 1}}};

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
    for (const auto& [op_type, attribute, value] : missed_defaults)
      if (node.op_type() == op_type && node.domain().empty() && !find_attribute(node, attribute))
        add_attribute(node, attribute, value);
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

OutputType output_of(const onnx::TypeProto& type, const onnx::NodeProto& node) {
  if (type.value_case() == onnx::TypeProto::VALUE_NOT_SET) return {};
  if (!type.has_tensor_type())
    fail("it makes a sequence, a map, an optional or a sparse tensor, which are not supported: {}",
         advice_about(node.domain(), node.op_type()));
  OutputType output;
  const auto& tensor = type.tensor_type();
  if (!is_data_type(tensor.elem_type()))
    fail("it makes elements of type {}, which this version does not know", tensor.elem_type());
  output.type = static_cast<DataType>(tensor.elem_type());
  if (output.type == DataType::string)
    fail("it makes strings, which are not supported: {}", advice_about_strings);
  if (!tensor.has_shape()) return output;
  Shape shape;
  for (const auto& dim : tensor.shape().dim()) {
    if (!dim.has_dim_value()) return output;
    shape.push_back(dim.dim_value());
  }
  if (!is_possible(shape)) fail("its output would have the impossible shape {}", to_string(shape));
  output.shape = std::move(shape);
  return output;
}

/// Inference does not end on some texts that are no equations.
void check_equation(const NodeInContext& context) {
  if (context.node.op_type() != "Einsum" || !context.node.domain().empty()) return;
  std::vector<Shape> shapes;
  for (const Value* operand : context.inputs) {
    if (operand == nullptr) fail("one of its inputs is left out");
    shapes.push_back(operand->shape);
  }
  const auto* equation = find_attribute(context.node, "equation");
  if (equation == nullptr) fail("it has no attribute 'equation'");
  check_einsum_equation(equation->s(), shapes);
}

/// The shape that a constant condition leaves of Compress's data, which inference does not tell.
std::optional<Shape> compressed_shape(const NodeInContext& context, const onnx::TypeProto&) {
  const Value* data = context.inputs[0];
  const Value* condition = context.inputs[1];
  if (!condition->constant || !condition->constant->has_data()) return std::nullopt;
  const std::vector<std::int64_t> keeps = condition->constant->to_int64s();
  const auto kept = static_cast<std::int64_t>(keeps.size()) - std::ranges::count(keeps, 0);
  const auto* axis = find_attribute(context.node, "axis");
  if (axis == nullptr) return Shape{kept};
  const auto rank = static_cast<std::int64_t>(data->shape.size());
  if (axis->i() < -rank || axis->i() >= rank) return std::nullopt;
  Shape shape = data->shape;
  shape[static_cast<std::size_t>(axis->i() < 0 ? axis->i() + rank : axis->i())] = kept;
  return shape;
}

/// The shape that MaxUnpool's third input gives, which inference does not read.
std::optional<Shape> unpooled_shape(const NodeInContext& context, const onnx::TypeProto&) {
  const Value* shape = context.inputs.size() > 2 ? context.inputs[2] : nullptr;
  if (shape == nullptr || !shape->constant || !shape->constant->has_data()) return std::nullopt;
  Shape found = shape->constant->to_int64s();
  const Shape& data = context.inputs[0]->shape;
  if (found.size() != data.size() || !is_possible(found))
    fail("its output would have the impossible shape {}", to_string(found));
  if (data.size() < 2 || !std::equal(data.begin(), data.begin() + 2, found.begin()))
    fail("its output {} has other images or channels than its data {}", to_string(found),
         to_string(data));
  return found;
}

/// The shape where Resize's sizes are known: inference leaves extents of 0 open, which a rank's
/// share may have.
std::optional<Shape> resized_shape(const NodeInContext& context, const onnx::TypeProto& inferred) {
  const Value* sizes = context.inputs.size() > 3 ? context.inputs[3] : nullptr;
  if (sizes == nullptr || !sizes->constant || !sizes->constant->has_data()) return std::nullopt;
  const Shape extents = sizes->constant->to_int64s();
  if (extents.empty()) return std::nullopt;  // scales are given
  if (!is_possible(extents)) fail("its sizes are {}", to_string(extents));
  Shape shape;
  for (const auto& dim : inferred.tensor_type().shape().dim())
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : 0);
  return shape;
}

/// How many numbers a Range of known integers makes. Inference counts those of 32 bits in 32 bits,
/// which a difference may exceed.
std::optional<Shape> counted_range(const NodeInContext& context) {
  if (!context.node.domain().empty() || context.node.op_type() != "Range") return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const Value* value : context.inputs) {
    const bool is_known = value != nullptr && value->constant && value->constant->has_data() &&
                          (value->type == DataType::int32 || value->type == DataType::int64);
    if (!is_known) return std::nullopt;
    numbers.push_back(value->constant->to_int64s().at(0));
  }
  const std::int64_t step = numbers.at(2);
  std::int64_t whole = 0;
  if (step == 0) fail("its step is 0");
  if (__builtin_sub_overflow(numbers[1], numbers[0], &whole) ||
      whole == std::numeric_limits<std::int64_t>::min())
    fail("it counts from {} to {}, which are more than 64 bits apart", numbers[0], numbers[1]);
  if (whole == 0 || (whole < 0) != (step < 0)) return Shape{0};
  Shape shape{whole / step + (whole % step == 0 ? 0 : 1)};
  if (!is_possible(shape)) fail("its output would have the impossible shape {}", to_string(shape));
  return shape;
}

/// The first output's shape where inference left it open, if it is known.
std::optional<Shape> open_shape(const NodeInContext& context, const onnx::TypeProto& inferred) {
  using Infer = std::optional<Shape> (*)(const NodeInContext&, const onnx::TypeProto&);
  static const std::map<std::string_view, Infer> table = {
      {"Compress", compressed_shape},
      {"MaxUnpool", unpooled_shape},
      {"Resize", resized_shape},
  };
  const auto found = table.find(context.node.op_type());
  if (!context.node.domain().empty() || found == table.end()) return std::nullopt;
  return found->second(context, inferred);
}

/// Runs the operator's own inference function, else walks the body that defines it.
void run_inference(const NodeInContext& context, onnx::InferenceContext& inference) {
  const onnx::OpSchema& schema = *context.schema;
  if (schema.has_type_and_shape_inference_function()) {
    schema.GetTypeAndShapeInferenceFunction()(inference);
  } else if (const auto body = schema_function_body(context)) {
    onnx::shape_inference::DataValueMap known_values;
    onnx::shape_inference::InferShapeForFunctionNode(
        body->function, &SchemaRegistry::instance(), inference,
        onnx::ShapeInferenceOptions(true, 1, /*data_prop_val=*/true), {}, nullptr, &known_values);
  }
  schema.CheckInputOutputType(inference);
}

std::vector<OutputType> infer_by_library(const LibraryOperator& op, const NodeInContext& context,
                                         std::string_view where) {
  const TensorReader read_tensor = [&](const onnx::TensorProto& proto) {
    return context.tensor ? context.tensor(proto) : tensor_from_proto(proto, nullptr);
  };
  return graph::infer_by_library(op, convert_attributes(context.node, read_tensor, where),
                                 context.inputs,
                                 static_cast<std::size_t>(context.node.output_size()));
}

}  // namespace

void NodeInContext::take_constant(std::int64_t bytes) const {
  if (budget != nullptr)
    budget->take_constant(bytes, [&] { return fmt::format("{}: {}", where, describe(node)); });
}

void NodeInContext::check_outputs(std::int64_t outputs) const {
  if (budget != nullptr)
    budget->check_outputs(
        outputs, [&] { return fmt::format("{}: {}, a node of its body", where, describe(node)); });
}

const onnx::OpSchema& schema_of(const onnx::NodeProto& node,
                                const std::map<std::string, std::int64_t>& opsets,
                                std::string_view where) {
  const std::string domain = canonical_domain(node.domain());
  const auto opset = opsets.find(domain);
  const auto* schema = opset == opsets.end()
                           ? nullptr
                           : SchemaRegistry::instance().GetSchema(
                                 node.op_type(), static_cast<int>(opset->second), domain);
  if (!schema || schema->deprecated())
    fail("{}: {} uses the operator {} of domain '{}', opset {}, which is not known: {}", where,
         describe(node), node.op_type(), domain.empty() ? "ai.onnx" : domain,
         opset == opsets.end() ? "not imported" : std::to_string(opset->second),
         advice_about(domain, node.op_type()));
  try {
    schema->Verify(node);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail("{}: {} is not what its operator allows: {}", where, describe(node),
         one_line(error.what()));
  }
  return *schema;
}

std::vector<OutputType> infer_outputs(const NodeInContext& context, std::string_view where) {
  InputMessages messages(context);
  const std::unordered_map<std::string, const onnx::SparseTensorProto*> no_sparse_data;
  const onnx::ShapeInferenceOptions options(true, 1, false);
  try {
    const LibraryOperator* op =
        find_library_operator(context.node.domain(), context.node.op_type());
    if (op != nullptr) return infer_by_library(*op, context, where);
    check_operand_forms(context);
    check_equation(context);
    onnx::shape_inference::InferenceContextImpl inference(
        messages.node, messages.type_pointers, messages.data_pointers, no_sparse_data, options);
    run_inference(context, inference);
    std::vector<OutputType> outputs;
    for (const auto& type : inference.allOutputTypes_)
      outputs.push_back(output_of(type, context.node));
    if (auto counted = counted_range(context)) outputs.at(0).shape = std::move(counted);
    check_results(context, outputs);
    if (!outputs.empty() && !outputs[0].shape)
      outputs[0].shape = open_shape(context, inference.allOutputTypes_[0]);
    return outputs;
  } catch (const OperatorFault& fault) {
    throw OperatorFault(fmt::format("{}: {}: {}", where, describe(context.node), fault.what()));
  } catch (const Error& error) {
    fail("{}: {}: {}", where, describe(context.node), error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail("{}: {} has inputs that do not fit together: {}", where, describe(context.node),
         one_line(error.what()));
  }
}

std::optional<Tensor> propagate_data(const NodeInContext& context, const OutputType& output) {
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
  } catch (const std::bad_alloc&) {
    throw;
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

std::vector<OutputType> infer_node(const Graph& graph, const Node& node) {
  register_collective_schemas();
  NodeInContext context{node_to_proto(graph, node), {}, nullptr, graph.opsets};
  context.schema = &schema_of(context.node, context.opsets, graph.name);
  for (const ValueId id : node.inputs)
    context.inputs.push_back(id == no_value ? nullptr : &graph.value(id));
  return infer_outputs(context, graph.name);
}

}  // namespace autopar::graph
