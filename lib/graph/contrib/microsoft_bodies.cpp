// Normalisations, activations and products of com.microsoft.

#include <algorithm>
#include <array>
#include <set>

#include "graph/contrib/families.h"

namespace autopar::graph {
namespace {

void refuse_output(const BodyBuilder& body, std::string_view output) {
  if (body.wants(output)) fail("its output '{}' is for training, which is not supported", output);
}

/// The input, what skips it and a bias together.
Operand sum_with_skip(BodyBuilder& body) {
  Operand sum = body["input"] + body["skip"];
  if (body.has("bias")) sum = sum + body["bias"];
  body.output("input_skip_bias_sum", sum);
  return sum;
}

/// What the activation that a fused operator's attribute names makes of `x`.
Operand activated(BodyBuilder& body, const Operand& x, const std::vector<float>& parameters,
                  DataType type) {
  static const std::set<std::string_view> plain = {"Relu", "Sigmoid", "Tanh", "Softplus",
                                                   "HardSwish"};
  const std::string name = body.string_attribute("activation", "");
  const auto parameter = [&](std::size_t i, float otherwise) {
    return i < parameters.size() ? parameters[i] : otherwise;
  };
  if (name.empty()) return x;
  if (plain.contains(name)) return body.op(name, {x});
  if (name == "LeakyRelu") return body.op(name, {x}, {{"alpha", parameter(0, 0.01F)}});
  if (name == "Elu") return body.op(name, {x}, {{"alpha", parameter(0, 1)}});
  if (name == "HardSigmoid")
    return body.op(name, {x}, {{"alpha", parameter(0, 0.2F)}, {"beta", parameter(1, 0.5F)}});
  if (name == "Clip" && parameters.size() == 2)
    return body.op(name, {x, body.number(parameters[0], type), body.number(parameters[1], type)});
  fail("its activation '{}' is not supported", name);
}

std::vector<float> activation_parameters(const BodyBuilder& body) {
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (body.has_attribute(name)) parameters.push_back(body.float_attribute(name, 0));
  return parameters;
}

void simplified_layer_normalization(BodyBuilder& body) {
  refuse_output(body, "inv_std_var");
  body.output("Y", body.op("RMSNormalization", {body["X"], body["scale"]},
                           {{"axis", body.int_attribute("axis", -1)},
                            {"epsilon", body.float_attribute("epsilon", 1e-5F)}}));
}

void skip_layer_normalization(BodyBuilder& body) {
  const std::size_t outputs = body.wants("inv_std_var") ? 3 : body.wants("mean") ? 2 : 1;
  const Operands made =
      body.ops("LayerNormalization", {sum_with_skip(body), body["gamma"], body["beta"]}, outputs,
               {{"axis", -1}, {"epsilon", body.float_attribute("epsilon", 1e-12F)}});
  constexpr std::array<std::string_view, 3> names = {"output", "mean", "inv_std_var"};
  for (std::size_t o = 0; o < outputs; ++o) body.output(names[o], made[o]);
}

void skip_simplified_layer_normalization(BodyBuilder& body) {
  refuse_output(body, "mean");
  refuse_output(body, "inv_std_var");
  body.output("output",
              body.op("RMSNormalization", {sum_with_skip(body), body["gamma"]},
                      {{"axis", -1}, {"epsilon", body.float_attribute("epsilon", 1e-12F)}}));
}

/// GroupNorm and SkipGroupNorm: channels last as a rule, and an activation behind.
void group_norm(BodyBuilder& body) {
  const auto rank = std::ssize(body.shape("X"));
  const bool channels_last = body.int_attribute("channels_last", 1) != 0;
  if (rank < 3) fail("its input {} has no channels", to_string(body.shape("X")));
  const auto by_channel = [&](const Operand& x, std::int64_t batch, std::int64_t channels) {
    Shape wide(static_cast<std::size_t>(rank), 1);
    wide[0] = batch;
    wide[channels_last ? static_cast<std::size_t>(rank - 1) : 1] = channels;
    return body.reshape(x, wide);
  };
  Operand x = body["X"];
  if (body.has("skip")) {
    const Shape& skip = body.shape("skip");
    x = x + (skip.size() == 2 ? by_channel(body["skip"], skip[0], skip[1]) : body["skip"]);
    if (body.has("bias")) x = x + by_channel(body["bias"], 1, body.shape("bias").at(0));
    body.output("S", x);
  }
  if (channels_last) {
    Ints channels_first = dims_up_to(rank);
    std::rotate(channels_first.begin() + 1, channels_first.end() - 1, channels_first.end());
    x = body.op("Transpose", {x}, {{"perm", channels_first}});
  }
  const DataType type = body.type("X");
  const Operand scale = body.cast(body["gamma"], type);
  Operand y = body.op("GroupNormalization", {x, scale, body.cast(body["beta"], type)},
                      {{"num_groups", body.int_attribute("groups", 1)},
                       {"epsilon", body.float_attribute("epsilon", 1e-5F)}});
  if (body.int_attribute("activation", 0) != 0) y = y * body.op("Sigmoid", {y});
  if (channels_last) {
    Ints last = dims_up_to(rank);
    std::rotate(last.begin() + 1, last.begin() + 2, last.end());
    y = body.op("Transpose", {y}, {{"perm", last}});
  }
  body.output("Y", y);
}

Operand tanh_gelu(const Operand& x) { return x.body->op("Gelu", {x}, {{"approximate", "tanh"}}); }

void gelu(BodyBuilder& body) { body.output("Y", body.op("Gelu", {body["X"]})); }

void fast_gelu(BodyBuilder& body) {
  body.output("Y", tanh_gelu(body.has("bias") ? body["X"] + body["bias"] : body["X"]));
}

void bias_gelu(BodyBuilder& body) { body.output("C", body.op("Gelu", {body["A"] + body["B"]})); }

void quick_gelu(BodyBuilder& body) {
  const Operand alpha = body.number(body.float_attribute("alpha", 1.702F), body.type("X"));
  body.output("Y", body["X"] * body.op("Sigmoid", {body["X"] * alpha}));
}

void bias_split_gelu(BodyBuilder& body) {
  const Operands halves = body.split(body["X"] + body["bias"], 2, -1);
  body.output("Y", halves[0] * body.op("Gelu", {halves[1]}));
}

void bias_add(BodyBuilder& body) { body.output("Y", body["X"] + body["bias"] + body["skip"]); }

/// The operand as the product takes it.
Operand transposed(BodyBuilder& body, const std::string& operand) {
  const bool batch = body.int_attribute("transBatch" + operand, 0) != 0;
  const bool matrix = body.int_attribute("trans" + operand, 0) != 0;
  const std::size_t rank = body.shape(operand).size();
  if ((!batch && !matrix) || rank < 2) return body[operand];
  Ints permutation = dims_up_to(std::ssize(body.shape(operand)));
  if (batch) std::rotate(permutation.begin(), permutation.begin() + 1, permutation.end() - 1);
  if (matrix) std::swap(permutation[rank - 2], permutation[rank - 1]);
  return body.op("Transpose", {body[operand]}, {{"perm", permutation}});
}

/// FusedMatMul, TransposeMatMul and FusedMatMulActivation.
void fused_matmul(BodyBuilder& body) {
  const float alpha = body.float_attribute("alpha", 1);
  Operand product = body.op("MatMul", {transposed(body, "A"), transposed(body, "B")});
  if (alpha != 1) product = product * body.number(alpha, body.type("A"));
  body.output("Y", activated(body, product, activation_parameters(body), body.type("A")));
}

void fused_gemm(BodyBuilder& body) {
  const Operand sum = body.op("Gemm", {body["A"], body["B"], body["C"]});
  body.pass_attributes({"alpha", "beta", "transA", "transB"});
  body.output("Y", activated(body, sum, activation_parameters(body), body.type("A")));
}

void fused_conv(BodyBuilder& body) {
  Operand sum = body.op("Conv", {body["X"], body["W"], body["B"]});
  body.pass_attributes({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  if (body.has("Z")) sum = sum + body["Z"];
  body.output("Y",
              activated(body, sum, body.floats_attribute("activation_params"), body.type("X")));
}

void gemm_fast_gelu(BodyBuilder& body) {
  const Operand product = body.op("MatMul", {body["X"], body["W"]});
  body.output("Y", tanh_gelu(body.has("bias") ? product + body["bias"] : product));
}

constexpr ContribOperator operators[] = {
    {"", "SimplifiedLayerNormalization", "X scale", "Y inv_std_var?",
     "axis:i epsilon:f stash_type:i", simplified_layer_normalization},
    {microsoft_domain, "SkipLayerNormalization", "input skip gamma beta? bias?",
     "output mean? inv_std_var? input_skip_bias_sum?", "epsilon:f", skip_layer_normalization},
    {microsoft_domain, "SkipSimplifiedLayerNormalization", "input skip gamma bias?",
     "output mean? inv_std_var? input_skip_bias_sum?", "epsilon:f",
     skip_simplified_layer_normalization},
    {microsoft_domain, "GroupNorm", "X gamma beta skip? bias?", "Y S?",
     "activation:i channels_last:i epsilon:f groups:i", group_norm},
    {microsoft_domain, "SkipGroupNorm", "X gamma beta skip bias?", "Y S?",
     "activation:i channels_last:i epsilon:f groups:i", group_norm},
    {microsoft_domain, "Gelu", "X", "Y", "", gelu},
    {microsoft_domain, "FastGelu", "X bias?", "Y", "", fast_gelu},
    {microsoft_domain, "BiasGelu", "A B", "C", "", bias_gelu},
    {microsoft_domain, "QuickGelu", "X", "Y", "alpha:f", quick_gelu},
    {microsoft_domain, "BiasSplitGelu", "X bias", "Y", "", bias_split_gelu},
    {microsoft_domain, "BiasAdd", "X bias skip", "Y", "", bias_add},
    {microsoft_domain, "FusedMatMul", "A B", "Y",
     "alpha:f transA:i transB:i transBatchA:i transBatchB:i", fused_matmul},
    {microsoft_domain, "TransposeMatMul", "A B", "Y", "alpha:f transA:i transB:i", fused_matmul},
    {microsoft_domain, "FusedMatMulActivation", "A B", "Y",
     "activation:s activation_alpha:f activation_axis:i activation_beta:f activation_gamma:f "
     "alpha:f transA:i transB:i transBatchA:i transBatchB:i",
     fused_matmul},
    {microsoft_domain, "FusedGemm", "A B C?", "Y",
     "activation:s activation_alpha:f activation_beta:f activation_gamma:f alpha:f beta:f transA:i "
     "transB:i",
     fused_gemm},
    {microsoft_domain, "FusedConv", "X W B? Z?", "Y",
     "activation:s activation_params:fs auto_pad:s dilations:is group:i kernel_shape:is pads:is "
     "strides:is",
     fused_conv},
    {microsoft_domain, "GemmFastGelu", "X W bias?", "Y", "", gemm_fast_gelu},
};

}  // namespace

std::span<const ContribOperator> microsoft_operators() { return operators; }

}  // namespace autopar::graph
