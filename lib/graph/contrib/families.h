#pragma once

#include "graph/contrib/body_builder.h"
#include "graph/onnx/schema_text.h"

namespace autopar::graph {

/// The domain of the operators that ONNX Runtime's optimiser and its builder of generative models
/// put into files.
inline constexpr const char* microsoft_domain = "com.microsoft";
inline constexpr const char* ml_domain = "ai.onnx.ml";

/// One operator. Its schema tells no attributes where ONNX itself has it.
struct ContribOperator : SchemaText {
  /// Throws Error for a form that is not served. Null where the operator has a kernel of its own.
  void (*body)(BodyBuilder&) = nullptr;
  InferShapes infer = nullptr;
};

/// The operators of each file, behind their bodies. Nearly all are written in ONNX's operators,
/// which then fuse, fold and split as in any model: what they join costs nothing apart.
std::span<const ContribOperator> microsoft_operators();
std::span<const ContribOperator> attention_operators();
std::span<const ContribOperator> grouped_attention_operators();
std::span<const ContribOperator> quantised_operators();
std::span<const ContribOperator> model_part_operators();
std::span<const ContribOperator> expert_operators();
std::span<const ContribOperator> ml_feature_operators();
std::span<const ContribOperator> ml_linear_operators();
std::span<const ContribOperator> ml_ensemble_operators();
std::span<const ContribOperator> tf_idf_operators();

}  // namespace autopar::graph
