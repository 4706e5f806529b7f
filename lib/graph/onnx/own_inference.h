#pragma once

#include <onnx/defs/shape_inference.h>

namespace autopar::graph {

/// Types and shapes of the operators of own_operators.h.
void infer_tree_sums(onnx::InferenceContext& context);
void infer_expert_matmul_n_bits(onnx::InferenceContext& context);

}  // namespace autopar::graph
