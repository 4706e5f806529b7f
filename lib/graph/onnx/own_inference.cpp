#include "graph/onnx/own_inference.h"

namespace autopar::graph {
namespace {

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

}  // namespace

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

}  // namespace autopar::graph
