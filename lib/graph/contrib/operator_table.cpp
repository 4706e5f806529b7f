#include "graph/contrib/operator_table.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <mutex>
#include <sstream>

#include "graph/contrib/microsoft_bodies.h"
#include "graph/contrib/ml_bodies.h"
#include "graph/onnx/own_inference.h"
#include "graph/own_operators.h"

namespace autopar::graph {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

/// One operator. Inputs and outputs are names, with '?' behind those that may be left out and '*'
/// behind a variadic one; attributes are names with a type behind a colon: i, f, s, is, fs, ss.
/// None are told where ONNX itself has the operator's schema.
struct Operator {
  std::string_view domain;
  std::string_view op_type;
  std::string_view inputs;
  std::string_view outputs;
  std::string_view attributes;
  /// Null where it has a kernel of its own.
  void (*body)(BodyBuilder&) = nullptr;
  void (*infer)(onnx::InferenceContext&) = nullptr;
};

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

constexpr std::string_view ms = microsoft_domain;
constexpr std::string_view ml_domain = "ai.onnx.ml";

/// Nearly all are written in ONNX's operators, which then fuse, fold and split as in any model:
/// what they join costs nothing apart. MatMulNBits has a kernel, since its weights would otherwise
/// have to be unpacked in memory.
constexpr Operator operators[] = {
    // Normalisations
    {"", "SimplifiedLayerNormalization", "X scale", "Y inv_std_var?",
     "axis:i epsilon:f stash_type:i", microsoft::simplified_layer_normalization},
    {ms, "SkipLayerNormalization", "input skip gamma beta? bias?",
     "output mean? inv_std_var? input_skip_bias_sum?", "epsilon:f",
     microsoft::skip_layer_normalization},
    {ms, "SkipSimplifiedLayerNormalization", "input skip gamma bias?",
     "output mean? inv_std_var? input_skip_bias_sum?", "epsilon:f",
     microsoft::skip_simplified_layer_normalization},
    {ms, "EmbedLayerNormalization",
     "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? "
     "position_ids?",
     "output mask_index? embedding_sum?", "epsilon:f mask_index_type:i",
     microsoft::embed_layer_normalization},
    {ms, "GroupNorm", "X gamma beta skip? bias?", "Y S?",
     "activation:i channels_last:i epsilon:f groups:i", microsoft::group_norm},
    {ms, "SkipGroupNorm", "X gamma beta skip bias?", "Y S?",
     "activation:i channels_last:i epsilon:f groups:i", microsoft::group_norm},
    // Activations
    {ms, "Gelu", "X", "Y", "", microsoft::gelu},
    {ms, "FastGelu", "X bias?", "Y", "", microsoft::fast_gelu},
    {ms, "BiasGelu", "A B", "C", "", microsoft::bias_gelu},
    {ms, "QuickGelu", "X", "Y", "alpha:f", microsoft::quick_gelu},
    {ms, "BiasSplitGelu", "X bias", "Y", "", microsoft::bias_split_gelu},
    {ms, "BiasAdd", "X bias skip", "Y", "", microsoft::bias_add},
    // Products
    {ms, "FusedMatMul", "A B", "Y", "alpha:f transA:i transB:i transBatchA:i transBatchB:i",
     microsoft::fused_matmul},
    {ms, "TransposeMatMul", "A B", "Y", "alpha:f transA:i transB:i", microsoft::fused_matmul},
    {ms, "FusedMatMulActivation", "A B", "Y",
     "activation:s activation_alpha:f activation_axis:i activation_beta:f activation_gamma:f "
     "alpha:f transA:i transB:i transBatchA:i transBatchB:i",
     microsoft::fused_matmul},
    {ms, "FusedGemm", "A B C?", "Y",
     "activation:s activation_alpha:f activation_beta:f activation_gamma:f alpha:f beta:f transA:i "
     "transB:i",
     microsoft::fused_gemm},
    {ms, "FusedConv", "X W B? Z?", "Y",
     "activation:s activation_params:fs auto_pad:s dilations:is group:i kernel_shape:is pads:is "
     "strides:is",
     microsoft::fused_conv},
    {ms, "GemmFastGelu", "X W bias?", "Y", "", microsoft::gemm_fast_gelu},
    {ms, "MatMulNBits", "A B scales zero_points? g_idx? bias?", "Y",
     "K:i N:i accuracy_level:i bits:i block_size:i weight_prepacked:i", nullptr,
     infer_matmul_n_bits},
    // Attention
    {ms, "RotaryEmbedding", "input position_ids cos_cache sin_cache", "output",
     "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f",
     microsoft::rotary_embedding},
    {ms, "Attention", "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
     "output present?",
     "do_rotary:i mask_filter_value:f num_heads:i past_present_share_buffer:i qkv_hidden_sizes:is "
     "rotary_embedding_dim:i scale:f unidirectional:i",
     microsoft::attention},
    {ms, "MultiHeadAttention",
     "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? "
     "past_sequence_length? cache_indirection?",
     "output present_key? present_value? qk?",
     "mask_filter_value:f num_heads:i scale:f unidirectional:i", microsoft::multi_head_attention},
    {ms, "GroupQueryAttention",
     "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? "
     "sin_cache? position_ids? attention_bias? head_sink? k_scale? v_scale? q_norm_weight? "
     "k_norm_weight?",
     "output present_key? present_value? output_qk?",
     "causal:i do_rotary:i k_quant_type:s kv_cache_bit_width:i kv_num_heads:i local_window_size:i "
     "num_heads:i qk_norm_epsilon:f qk_output:i rotary_interleaved:i scale:f "
     "sliding_window_cache:i "
     "smooth_softmax:i softcap:f v_quant_type:s",
     microsoft::group_query_attention},
    // Quantised tensors
    {ms, "QuantizeLinear", "x y_scale y_zero_point?", "y", "axis:i", microsoft::quantize_linear},
    {ms, "DequantizeLinear", "x x_scale x_zero_point?", "y", "axis:i",
     microsoft::dequantize_linear},
    {ms, "QLinearAdd", "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", "C",
     "", microsoft::qlinear_add},
    {ms, "QLinearMul", "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?", "C",
     "", microsoft::qlinear_mul},
    {ms, "QLinearSigmoid", "X X_scale X_zero_point? Y_scale Y_zero_point?", "Y", "",
     microsoft::qlinear_sigmoid},
    {ms, "QLinearLeakyRelu", "X X_scale X_zero_point? Y_scale Y_zero_point?", "Y", "alpha:f",
     microsoft::qlinear_leaky_relu},
    {ms, "QLinearSoftmax", "X X_scale X_zero_point? Y_scale Y_zero_point", "Y", "axis:i opset:i",
     microsoft::qlinear_softmax},
    {ms, "QLinearGlobalAveragePool", "X X_scale X_zero_point Y_scale Y_zero_point", "Y",
     "channels_last:i", microsoft::qlinear_global_average_pool},
    {ms, "QLinearAveragePool", "X X_scale X_zero_point? Y_scale Y_zero_point?", "Y",
     "auto_pad:s ceil_mode:i channels_last:i count_include_pad:i kernel_shape:is pads:is "
     "strides:is",
     microsoft::qlinear_average_pool},
    {ms, "QLinearConcat", "Y_scale Y_zero_point inputs*", "Y", "axis:i", microsoft::qlinear_concat},
    {ms, "QGemm", "A a_scale a_zero_point B b_scale b_zero_point C? y_scale? y_zero_point?", "Y",
     "alpha:f transA:i transB:i", microsoft::qgemm},
    {ms, "MatMulIntegerToFloat", "A B a_scale b_scale a_zero_point? b_zero_point? bias?", "Y", "",
     microsoft::matmul_integer_to_float},
    {ms, "DynamicQuantizeMatMul", "A B b_scale b_zero_point? bias?", "Y", "",
     microsoft::dynamic_quantize_matmul},
    {ms, "GatherBlockQuantized", "data indices scales zero_points?", "output",
     "bits:i block_size:i gather_axis:i quantize_axis:i", microsoft::gather_block_quantized},
    {ms, "QEmbedLayerNormalization",
     "input_ids segment_ids? word_embedding_quant position_embedding_quant segment_embedding? "
     "gamma_quant beta_quant mask? word_embedding_scale position_embedding_scale "
     "segment_embedding_scale? gamma_scale beta_scale word_embedding_zero_point "
     "position_embedding_zero_point segment_embedding_zero_point? gamma_zero_point "
     "beta_zero_point",
     "layernorm_out mask_index_out?", "epsilon:f", microsoft::qembed_layer_normalization},
    {ms, "QAttention",
     "input weight bias input_scale weight_scale mask_index? input_zero_point? "
     "weight_zero_point? past?",
     "output present?",
     "do_rotary:i mask_filter_value:f num_heads:i past_present_share_buffer:i scale:f "
     "unidirectional:i",
     microsoft::qattention},
    {ms, "DynamicQuantizeLSTM",
     "X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point",
     "Y? Y_h? Y_c?",
     "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i "
     "input_forget:i",
     microsoft::dynamic_quantize_lstm},
    // Experts
    {ms, "MoE",
     "input router_probs fc1_experts_weights fc1_experts_bias? fc2_experts_weights "
     "fc2_experts_bias? fc3_experts_weights? fc3_experts_bias?",
     "output",
     "activation_alpha:f activation_beta:f activation_type:s k:i normalize_routing_weights:i "
     "swiglu_fusion:i swiglu_limit:f use_sparse_mixer:i",
     microsoft::mixture_of_experts},
    {ms, "QMoE",
     "input router_probs fc1_experts_weights fc1_scales? fc1_experts_bias? fc2_experts_weights "
     "fc2_scales? fc2_experts_bias? fc3_experts_weights? fc3_scales? fc3_experts_bias? "
     "fc1_zero_points? fc2_zero_points? fc3_zero_points? router_weights? fc1_global_scale? "
     "fc2_global_scale? fc1_act_scale? fc2_act_scale? fc1_act_block_scale? fc2_act_block_scale?",
     "output",
     "accuracy_level:i activation_alpha:f activation_beta:f activation_type:s block_size:i "
     "expert_weight_bits:i fc1_expert_weight_bits:i fc2_expert_weight_bits:i "
     "fc3_expert_weight_bits:i k:i normalize_routing_weights:i quant_type:s swiglu_fusion:i "
     "swiglu_limit:f use_sparse_mixer:i weights_prepacked:i",
     microsoft::quantized_mixture_of_experts},
    // What bodies need and ONNX does not have
    {own_domain, "TreeSums", "X features splits modes branches targets weights", "Y",
     "aggregate:s n_targets:i", nullptr, infer_tree_sums},
    {own_domain, "ExpertMatMulNBits", "A indices B scales zero_points? bias?", "Y",
     "bits:i block_size:i", nullptr, infer_expert_matmul_n_bits},
    // Classical models
    {ml_domain, "ArrayFeatureExtractor", "X Y", "Z", "", ml::array_feature_extractor},
    {ml_domain, "Binarizer", "X", "Y", "", ml::binarizer},
    {ml_domain, "FeatureVectorizer", "inputs*", "Y", "", ml::feature_vectorizer},
    {ml_domain, "Imputer", "X", "Y", "", ml::imputer},
    {ml_domain, "LabelEncoder", "X", "Y", "", ml::label_encoder},
    {ml_domain, "LinearClassifier", "X", "Y Z", "", ml::linear_classifier},
    {ml_domain, "LinearRegressor", "X", "Y", "", ml::linear_regressor},
    {ml_domain, "Normalizer", "X", "Y", "", ml::normalizer},
    {ml_domain, "OneHotEncoder", "X", "Y", "", ml::one_hot_encoder},
    {ml_domain, "SVMClassifier", "X", "Y Z", "", ml::svm_classifier},
    {ml_domain, "SVMRegressor", "X", "Y", "", ml::svm_regressor},
    {ml_domain, "Scaler", "X", "Y", "", ml::scaler},
    {ml_domain, "TreeEnsemble", "X", "Y", "", ml::tree_ensemble},
    {ml_domain, "TreeEnsembleClassifier", "X", "Y Z", "", ml::tree_ensemble_classifier},
    {ml_domain, "TreeEnsembleRegressor", "X", "Y", "", ml::tree_ensemble_regressor},
    {"", "TfIdfVectorizer", "X", "Y", "", ml::tf_idf_vectorizer},
};

std::vector<std::string> words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

AttributeProto::AttributeType attribute_type(std::string_view letters) {
  if (letters == "i") return AttributeProto::INT;
  if (letters == "f") return AttributeProto::FLOAT;
  if (letters == "s") return AttributeProto::STRING;
  if (letters == "is") return AttributeProto::INTS;
  return letters == "fs" ? AttributeProto::FLOATS : AttributeProto::STRINGS;
}

/// A name and what the letter behind it says of how often it comes.
std::pair<std::string, OpSchema::FormalParameterOption> parameter(std::string word) {
  const char last = word.back();
  if (last == '?' || last == '*') word.pop_back();
  return {word, last == '?'   ? OpSchema::Optional
                : last == '*' ? OpSchema::Variadic
                              : OpSchema::Single};
}

/// Inputs may have any type, which the operators of a body check.
OpSchema schema_of(const Operator& op) {
  OpSchema schema;
  schema.SetName(std::string(op.op_type)).SetDomain(std::string(op.domain)).SinceVersion(1);
  int place = 0;
  for (const std::string& word : words(op.inputs)) {
    const auto [name, option] = parameter(word);
    schema.Input(place, name, name, "T" + std::to_string(place), option, false);
    schema.TypeConstraint("T" + std::to_string(place), OpSchema::all_tensor_types_ir10(), name);
    ++place;
  }
  place = 0;
  for (const std::string& word : words(op.outputs)) {
    const auto [name, option] = parameter(word);
    schema.Output(place++, name, name, "T0", option);
  }
  for (const std::string& word : words(op.attributes)) {
    const auto colon = word.find(':');
    schema.Attr(word.substr(0, colon), word, attribute_type(word.substr(colon + 1)),
                /*required=*/false);
  }
  if (op.infer != nullptr) schema.TypeAndShapeInferenceFunction(op.infer);
  return schema;
}

/// Whether ONNX knows the operator without us.
bool has_schema(const Operator& op) {
  return op.domain == ml_domain || op.op_type == "TfIdfVectorizer";
}

const Operator* find(std::string_view domain, std::string_view op_type) {
  const auto found = std::ranges::find_if(
      operators, [&](const Operator& op) { return op.op_type == op_type && op.domain == domain; });
  return found == std::end(operators) ? nullptr : &*found;
}

/// Names of all inputs that a call may have, those of a variadic one numbered.
std::vector<std::string> input_names(const Operator& op, std::size_t given) {
  std::vector<std::string> names;
  for (const std::string& word : words(op.inputs)) {
    const auto [name, option] = parameter(word);
    if (option != OpSchema::Variadic) {
      names.push_back(name);
      continue;
    }
    for (std::size_t i = 0; names.size() < given; ++i)
      names.push_back(fmt::format("{}_{}", name, i));
  }
  return names;
}

}  // namespace

void register_contrib_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const char* domain : {microsoft_domain, own_domain})
      onnx::OpSchemaRegistry::DomainToVersionRange::Instance().AddDomainToVersion(domain, 1, 1);
    for (const Operator& op : operators)
      if (!has_schema(op))
        onnx::RegisterSchema(schema_of(op), 0, /*fail_duplicate_schema=*/true,
                             /*fail_with_exception=*/true);
  });
}

std::vector<std::pair<std::string_view, std::string_view>> contrib_operators() {
  std::vector<std::pair<std::string_view, std::string_view>> names;
  for (const Operator& op : operators) names.emplace_back(op.domain, op.op_type);
  return names;
}

bool has_contrib_body(std::string_view domain, std::string_view op_type) {
  const Operator* op = find(domain, op_type);
  return op != nullptr && op->body != nullptr;
}

std::optional<FunctionBody> contrib_function_body(const NodeInContext& call) {
  const Operator* op = find(call.node.domain(), call.node.op_type());
  if (op == nullptr || op->body == nullptr) return std::nullopt;
  std::vector<std::string> outputs;
  for (const std::string& word : words(op->outputs)) outputs.push_back(parameter(word).first);
  BodyBuilder body(call, input_names(*op, call.inputs.size()), outputs);
  op->body(body);
  return body.finish();
}

}  // namespace autopar::graph
