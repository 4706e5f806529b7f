#include "graph/contrib/microsoft_bodies.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace autopar::graph::microsoft {
namespace {

/// The float attribute as the text form has it: with a point and an exponent, and with so many
/// digits that it is read as the same number.
std::string float_text(float value) { return fmt::format("{:.8e}", value); }

std::string epsilon(const BodyBuilder& body, float otherwise) {
  return float_text(body.float_attribute("epsilon", otherwise));
}

void refuse_output(const BodyBuilder& body, std::string_view output) {
  if (body.wants(output)) fail("its output '{}' is for training, which is not supported", output);
}

/// "sum", of the input, what skips it and a bias; returns that.
void add_skip(BodyBuilder& body) {
  body.add(body.has("bias") ? "skipped = Add (input, skip) sum = Add (skipped, bias)"
                            : "sum = Add (input, skip)");
  if (body.wants("input_skip_bias_sum")) body.add("input_skip_bias_sum = Identity (sum)");
}

/// y = activation(x), as the attributes of fused operators name it.
void add_activation(BodyBuilder& body, const std::string& name, std::vector<float> parameters,
                    const std::string& x, const std::string& y, DataType type) {
  const auto parameter = [&](std::size_t i, float otherwise) {
    return float_text(i < parameters.size() ? parameters[i] : otherwise);
  };
  if (name.empty())
    body.write("{} = Identity ({})", y, x);
  else if (name == "LeakyRelu")
    body.write("{} = LeakyRelu <alpha = {}> ({})", y, parameter(0, 0.01F), x);
  else if (name == "Elu")
    body.write("{} = Elu <alpha = {}> ({})", y, parameter(0, 1), x);
  else if (name == "HardSigmoid")
    body.write("{} = HardSigmoid <alpha = {}, beta = {}> ({})", y, parameter(0, 0.2F),
               parameter(1, 0.5F), x);
  else if (name == "Clip" && parameters.size() == 2)
    body.write("{} = Clip ({}, {}, {})", y, x, body.number(parameters[0], type),
               body.number(parameters[1], type));
  else if (name == "Relu" || name == "Sigmoid" || name == "Tanh" || name == "Softplus" ||
           name == "HardSwish")
    body.write("{} = {} ({})", y, name, x);
  else
    fail("its activation '{}' is not supported", name);
}

}  // namespace

void simplified_layer_normalization(BodyBuilder& body) {
  refuse_output(body, "inv_std_var");
  body.write("Y = RMSNormalization <axis = {}, epsilon = {}> (X, scale)",
             body.int_attribute("axis", -1), epsilon(body, 1e-5F));
}

void skip_layer_normalization(BodyBuilder& body) {
  add_skip(body);
  const std::string outputs = body.wants("inv_std_var") ? "output, mean, inv_std_var"
                              : body.wants("mean")      ? "output, mean"
                                                        : "output";
  body.write("{} = LayerNormalization <axis = -1, epsilon = {}> (sum, gamma{})", outputs,
             epsilon(body, 1e-12F), body.has("beta") ? ", beta" : "");
}

void skip_simplified_layer_normalization(BodyBuilder& body) {
  refuse_output(body, "mean");
  refuse_output(body, "inv_std_var");
  add_skip(body);
  body.write("output = RMSNormalization <axis = -1, epsilon = {}> (sum, gamma)",
             epsilon(body, 1e-12F));
}

void embed_layer_normalization(BodyBuilder& body) {
  const Shape& ids = body.shape("input_ids");
  if (ids.size() != 2) fail("its input_ids are {}, not of two dimensions", to_string(ids));
  body.add("words = Gather (word_embedding, input_ids)");
  if (body.has("position_ids"))
    body.add("positions = Gather (position_embedding, position_ids)");
  else
    body.write("positions = Slice (position_embedding, {}, {}, {})", body.ints({0}),
               body.ints({ids[1]}), body.ints({0}));
  body.add("embedded = Add (words, positions)");
  if (body.has("segment_ids"))
    body.add("segments = Gather (segment_embedding, segment_ids) sum = Add (embedded, segments)");
  else
    body.add("sum = Identity (embedded)");
  if (body.wants("embedding_sum")) body.add("embedding_sum = Identity (sum)");
  body.write("output = LayerNormalization <axis = -1, epsilon = {}> (sum, gamma, beta)",
             epsilon(body, 1e-12F));
  if (!body.wants("mask_index")) return;
  if (body.has("mask"))
    body.write(
        "mask_64 = Cast <to = 7> (mask) is_word = Equal (mask_64, {}) "
        "words_in_mask = Cast <to = 6> (is_word) "
        "mask_index = ReduceSum <keepdims = 0> (words_in_mask, {})",
        body.integer(1), body.ints({1}));
  else
    body.write("no_words = ConstantOfShape ({}) mask_index = Cast <to = 6> (no_words)",
               body.ints({ids[0]}));
}

/// GroupNorm and SkipGroupNorm: channels last as a rule, and an activation behind.
void group_norm(BodyBuilder& body) {
  const std::int64_t rank = static_cast<std::int64_t>(body.shape("X").size());
  const bool channels_last = body.int_attribute("channels_last", 1) != 0;
  if (rank < 3) fail("its input {} has no channels", to_string(body.shape("X")));
  std::string x = "X";
  if (body.has("skip")) {
    const Shape& skip = body.shape("skip");
    std::string added = "skip";
    if (skip.size() == 2) {
      Shape wide(static_cast<std::size_t>(rank), 1);
      wide[0] = skip[0];
      wide[channels_last ? static_cast<std::size_t>(rank - 1) : 1] = skip[1];
      body.write("wide_skip = Reshape (skip, {})", body.ints(wide));
      added = "wide_skip";
    }
    body.write("skipped = Add (X, {})", added);
    x = "skipped";
    if (body.has("bias")) {
      Shape wide(static_cast<std::size_t>(rank), 1);
      wide[channels_last ? static_cast<std::size_t>(rank - 1) : 1] = body.shape("bias").at(0);
      body.write("wide_bias = Reshape (bias, {}) biased = Add (skipped, wide_bias)",
                 body.ints(wide));
      x = "biased";
    }
    if (body.wants("S")) body.write("S = Identity ({})", x);
  }
  std::vector<std::int64_t> first{0, rank - 1};
  std::vector<std::int64_t> last{0};
  for (std::int64_t d = 1; d < rank - 1; ++d) first.push_back(d);
  for (std::int64_t d = 2; d < rank; ++d) last.push_back(d);
  last.push_back(1);
  if (channels_last) {
    body.write("channels_first = Transpose <perm = {}> ({})", list_text(first), x);
    x = "channels_first";
  }
  const int type = static_cast<int>(body.type("X"));
  body.write("scale = Cast <to = {0}> (gamma) shift = Cast <to = {0}> (beta)", type);
  body.write("normal = GroupNormalization <num_groups = {}, epsilon = {}> ({}, scale, shift)",
             body.int_attribute("groups", 1), epsilon(body, 1e-5F), x);
  std::string y = "normal";
  if (body.int_attribute("activation", 0) != 0) {
    body.add("gate = Sigmoid (normal) activated = Mul (normal, gate)");
    y = "activated";
  }
  body.add(channels_last ? fmt::format("Y = Transpose <perm = {}> ({})", list_text(last), y)
                         : fmt::format("Y = Identity ({})", y));
}

void gelu(BodyBuilder& body) { body.add("Y = Gelu (X)"); }

void fast_gelu(BodyBuilder& body) {
  body.add(body.has("bias") ? "sum = Add (X, bias) Y = Gelu <approximate = \"tanh\"> (sum)"
                            : "Y = Gelu <approximate = \"tanh\"> (X)");
}

void bias_gelu(BodyBuilder& body) { body.add("sum = Add (A, B) C = Gelu (sum)"); }

void quick_gelu(BodyBuilder& body) {
  const std::string alpha = body.number(body.float_attribute("alpha", 1.702F), body.type("X"));
  body.write("scaled = Mul (X, {}) gate = Sigmoid (scaled) Y = Mul (X, gate)", alpha);
}

void bias_split_gelu(BodyBuilder& body) {
  body.add(
      "sum = Add (X, bias) left, right = Split <axis = -1, num_outputs = 2> (sum) "
      "gate = Gelu (right) Y = Mul (left, gate)");
}

void bias_add(BodyBuilder& body) { body.add("sum = Add (X, bias) Y = Add (sum, skip)"); }

namespace {

/// The operand as the product takes it; returns its name.
std::string transposed(BodyBuilder& body, const std::string& operand) {
  const bool batch = body.int_attribute("transBatch" + operand, 0) != 0;
  const bool matrix = body.int_attribute("trans" + operand, 0) != 0;
  const auto rank = body.shape(operand).size();
  if ((!batch && !matrix) || rank < 2) return operand;
  std::vector<std::int64_t> permutation(rank);
  std::iota(permutation.begin(), permutation.end(), 0);
  if (batch) std::rotate(permutation.begin(), permutation.begin() + 1, permutation.end() - 1);
  if (matrix) std::swap(permutation[rank - 2], permutation[rank - 1]);
  body.write("{0}_t = Transpose <perm = {1}> ({0})", operand, list_text(permutation));
  return operand + "_t";
}

}  // namespace

/// FusedMatMul, TransposeMatMul and FusedMatMulActivation.
void fused_matmul(BodyBuilder& body) {
  const std::string a = transposed(body, "A");
  const std::string b = transposed(body, "B");
  const float alpha = body.float_attribute("alpha", 1);
  const std::string activation = body.string_attribute("activation", "");
  body.write("product = MatMul ({}, {})", a, b);
  std::string scaled = "product";
  if (alpha != 1) {
    body.write("scaled = Mul (product, {})", body.number(alpha, body.type("A")));
    scaled = "scaled";
  }
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (body.has_attribute(name)) parameters.push_back(body.float_attribute(name, 0));
  add_activation(body, activation, parameters, scaled, "Y", body.type("A"));
}

void fused_gemm(BodyBuilder& body) {
  body.add(body.has("C") ? "sum = Gemm (A, B, C)" : "sum = Gemm (A, B)");
  body.pass_attributes({"alpha", "beta", "transA", "transB"});
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (body.has_attribute(name)) parameters.push_back(body.float_attribute(name, 0));
  add_activation(body, body.string_attribute("activation", ""), parameters, "sum", "Y",
                 body.type("A"));
}

void fused_conv(BodyBuilder& body) {
  body.add(body.has("B") ? "made = Conv (X, W, B)" : "made = Conv (X, W)");
  body.pass_attributes({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  if (body.has("Z")) body.add("sum = Add (made, Z)");
  add_activation(body, body.string_attribute("activation", ""),
                 body.floats_attribute("activation_params"), body.has("Z") ? "sum" : "made", "Y",
                 body.type("X"));
}

void gemm_fast_gelu(BodyBuilder& body) {
  body.add("product = MatMul (X, W)");
  body.add(body.has("bias") ? "sum = Add (product, bias) Y = Gelu <approximate = \"tanh\"> (sum)"
                            : "Y = Gelu <approximate = \"tanh\"> (product)");
}

}  // namespace autopar::graph::microsoft
