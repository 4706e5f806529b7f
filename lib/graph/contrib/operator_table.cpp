#include "graph/contrib/operator_table.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <mutex>

#include "base/out_of_memory.h"
#include "graph/contrib/families.h"
#include "graph/onnx/collective_schemas.h"
#include "graph/own_operators.h"

namespace autopar::graph {
namespace {

void infer_matmul_n_bits(onnx::InferenceContext& context) {
  onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
  if (!onnx::hasInputShape(context, 0)) return;
  const auto& a = onnx::getInputShape(context, 0);
  const std::int64_t depth = onnx::getAttribute(context, "K", std::int64_t{0});
  if (a.dim_size() == 0 ||
      (a.dim(a.dim_size() - 1).has_dim_value() && a.dim(a.dim_size() - 1).dim_value() != depth))
    fail_shape_inference("the last dimension of A is not K, ", depth);
  onnx::propagateShapeFromInputToOutput(context, 0, 0);
  auto& shape = *context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  shape.mutable_dim(shape.dim_size() - 1)
      ->set_dim_value(onnx::getAttribute(context, "N", std::int64_t{0}));
}

using Dimension = onnx::TensorShapeProto_Dimension;

/// Output 0 has the rows of input 0 and so many columns.
void infer_rows(onnx::InferenceContext& context, const Dimension& columns) {
  onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
  onnx::TensorShapeProto shape;
  *shape.add_dim() = onnx::getInputShape(context, 0).dim(0);
  *shape.add_dim() = columns;
  onnx::updateOutputShape(context, 0, shape);
}

/// Whether the shapes are known; fails where a rank is another.
bool have_ranks(onnx::InferenceContext& context, std::initializer_list<int> ranks) {
  std::size_t input = 0;
  for (const int rank : ranks) {
    if (!onnx::hasInputShape(context, input)) return false;
    if (onnx::getInputShape(context, input).dim_size() != rank)
      fail_shape_inference("input ", input, " has not ", rank, " dimensions");
    ++input;
  }
  return true;
}

void infer_tree_sums(onnx::InferenceContext& context) {
  if (!have_ranks(context, {2, 2, 2, 2, 3, 2, 2})) return;
  Dimension targets;
  targets.set_dim_value(onnx::getAttribute(context, "n_targets", std::int64_t{1}));
  infer_rows(context, targets);
}

void infer_expert_matmul_n_bits(onnx::InferenceContext& context) {
  if (have_ranks(context, {2, 1, 3, 3}))
    infer_rows(context, onnx::getInputShape(context, 2).dim(1));
}

/// Operators that have kernels of their own: MatMulNBits, since its weights would otherwise have to
/// be unpacked in memory, and what bodies need and ONNX does not have.
constexpr ContribOperator operators_with_kernels[] = {
    {microsoft_domain, "MatMulNBits", "A B scales zero_points? g_idx? bias?", "Y",
     "K:i N:i accuracy_level:i bits:i block_size:i weight_prepacked:i", nullptr,
     infer_matmul_n_bits},
    {own_domain, "TreeSums", "X features splits modes branches targets weights", "Y",
     "aggregate:s n_targets:i", nullptr, infer_tree_sums},
    {own_domain, "ExpertMatMulNBits", "A indices B scales zero_points? bias?", "Y",
     "bits:i block_size:i", nullptr, infer_expert_matmul_n_bits},
};

const std::vector<ContribOperator>& all_operators() {
  static const std::vector<ContribOperator> all = [] {
    std::vector<ContribOperator> joined;
    for (const std::span<const ContribOperator> family :
         {microsoft_operators(), attention_operators(), grouped_attention_operators(),
          quantised_operators(), model_part_operators(), expert_operators(), ml_feature_operators(),
          ml_linear_operators(), ml_ensemble_operators(), tf_idf_operators(),
          std::span<const ContribOperator>(operators_with_kernels)})
      joined.insert(joined.end(), family.begin(), family.end());
    return joined;
  }();
  return all;
}

const ContribOperator* find(std::string_view domain, std::string_view op_type) {
  const auto& all = all_operators();
  const auto found = std::ranges::find_if(
      all, [&](const ContribOperator& op) { return op.op_type == op_type && op.domain == domain; });
  return found == all.end() ? nullptr : &*found;
}

/// Names of all that a call may have, of which it has so many; those of a variadic one numbered.
std::vector<std::string> names_in(std::string_view text, std::size_t given) {
  std::vector<std::string> names;
  for (const auto& [name, option] : parameters(text)) {
    if (option != onnx::OpSchema::Variadic) names.push_back(name);
    for (int i = 0; option == onnx::OpSchema::Variadic && names.size() < given; ++i)
      names.push_back(fmt::format("{}_{}", name, i));
  }
  return names;
}

}  // namespace

void register_schemas() {
  register_collective_schemas();
  static std::once_flag once;
  std::call_once(once, [] {
    const VitalMemory vital;
    for (const char* domain : {microsoft_domain, own_domain})
      onnx::OpSchemaRegistry::DomainToVersionRange::Instance().AddDomainToVersion(domain, 1, 1);
    for (const ContribOperator& op : all_operators())
      if (op.domain != ml_domain && op.op_type != "TfIdfVectorizer")  // ONNX has schemas of these
        register_schema(op, op.infer, /*needs_attributes=*/false);
  });
}

std::vector<std::pair<std::string_view, std::string_view>> contrib_operators() {
  std::vector<std::pair<std::string_view, std::string_view>> names;
  for (const ContribOperator& op : all_operators()) names.emplace_back(op.domain, op.op_type);
  return names;
}

bool has_contrib_body(std::string_view domain, std::string_view op_type) {
  const ContribOperator* op = find(domain, op_type);
  return op != nullptr && op->body != nullptr;
}

std::optional<FunctionBody> contrib_function_body(const NodeInContext& call) {
  const ContribOperator* op = find(call.node.domain(), call.node.op_type());
  if (op == nullptr || op->body == nullptr) return std::nullopt;
  BodyBuilder body(call, names_in(op->inputs, call.inputs.size()), names_in(op->outputs, 0));
  op->body(body);
  return body.finish();
}

}  // namespace autopar::graph
