#pragma once

#include "graph/body_builder.h"

/// Bodies of operators of the domain ai.onnx.ml, and one of ONNX's own, that others make up.
namespace autopar::graph::ml {

void array_feature_extractor(BodyBuilder& body);
void binarizer(BodyBuilder& body);
void scaler(BodyBuilder& body);
/// Of integers.
void tf_idf_vectorizer(BodyBuilder& body);

}  // namespace autopar::graph::ml
