#pragma once

#include "graph/contrib/body_builder.h"

/// Bodies of operators of the domain ai.onnx.ml, and of one of ONNX's own domain.
namespace autopar::graph::ml {

void array_feature_extractor(BodyBuilder& body);
void binarizer(BodyBuilder& body);
void scaler(BodyBuilder& body);

// Features (ml_features.cpp).
void feature_vectorizer(BodyBuilder& body);
void imputer(BodyBuilder& body);
void label_encoder(BodyBuilder& body);
void normalizer(BodyBuilder& body);
void one_hot_encoder(BodyBuilder& body);

// Models (ml_linear.cpp, ml_ensembles.cpp).
void linear_classifier(BodyBuilder& body);
void linear_regressor(BodyBuilder& body);
void svm_classifier(BodyBuilder& body);
void svm_regressor(BodyBuilder& body);
void tree_ensemble(BodyBuilder& body);
void tree_ensemble_classifier(BodyBuilder& body);
void tree_ensemble_regressor(BodyBuilder& body);

/// Its items are integers.
void tf_idf_vectorizer(BodyBuilder& body);

}  // namespace autopar::graph::ml
