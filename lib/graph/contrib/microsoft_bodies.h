#pragma once

#include "graph/contrib/body_builder.h"

/// Bodies of operators of the domain com.microsoft, one each, named after it
/// (operator_table.cpp has their inputs, outputs and attributes). All throw Error for a form
/// that they do not serve.
namespace autopar::graph::microsoft {

// Normalisations, activations, products (microsoft_bodies.cpp).
void simplified_layer_normalization(BodyBuilder& body);
void skip_layer_normalization(BodyBuilder& body);
void skip_simplified_layer_normalization(BodyBuilder& body);
void embed_layer_normalization(BodyBuilder& body);
void group_norm(BodyBuilder& body);
void gelu(BodyBuilder& body);
void fast_gelu(BodyBuilder& body);
void bias_gelu(BodyBuilder& body);
void quick_gelu(BodyBuilder& body);
void bias_split_gelu(BodyBuilder& body);
void bias_add(BodyBuilder& body);
void fused_matmul(BodyBuilder& body);
void fused_gemm(BodyBuilder& body);
void fused_conv(BodyBuilder& body);
void gemm_fast_gelu(BodyBuilder& body);

// Attention (microsoft_attention.cpp, microsoft_grouped_attention.cpp).
void rotary_embedding(BodyBuilder& body);
void attention(BodyBuilder& body);
void multi_head_attention(BodyBuilder& body);
void group_query_attention(BodyBuilder& body);

// Quantised tensors (microsoft_quantised.cpp).
void quantize_linear(BodyBuilder& body);
void dequantize_linear(BodyBuilder& body);
void qlinear_add(BodyBuilder& body);
void qlinear_mul(BodyBuilder& body);
void qlinear_sigmoid(BodyBuilder& body);
void qlinear_leaky_relu(BodyBuilder& body);
void qlinear_softmax(BodyBuilder& body);
void qlinear_global_average_pool(BodyBuilder& body);
void qlinear_average_pool(BodyBuilder& body);
void qlinear_concat(BodyBuilder& body);
void qgemm(BodyBuilder& body);
void matmul_integer_to_float(BodyBuilder& body);
void dynamic_quantize_matmul(BodyBuilder& body);

// Quantised parts of models (microsoft_quantised_models.cpp).
void qembed_layer_normalization(BodyBuilder& body);
void qattention(BodyBuilder& body);
void dynamic_quantize_lstm(BodyBuilder& body);

// Lookups in quantised tables (microsoft_gather.cpp).
void gather_block_quantized(BodyBuilder& body);

// Mixtures of experts (microsoft_experts.cpp).
void mixture_of_experts(BodyBuilder& body);
void quantized_mixture_of_experts(BodyBuilder& body);

}  // namespace autopar::graph::microsoft
