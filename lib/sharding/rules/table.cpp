#include "sharding/rules/table.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "graph/own_operators.h"

namespace autopar::sharding {

ShardingRule rules::replicated(const Operator& op) { return replicated_rule(op.graph, op.node); }

namespace {

/// The groups of inputs in which operators are jointly linear.
namespace linear {

using Groups = std::vector<std::vector<int>>;
using rules::Operator;

/// Copies, scales or adds up elements of the first input, whatever the others are.
Groups in_first(const Operator& /*op*/) { return {{0}}; }
/// Where.
Groups in_branches(const Operator& /*op*/) { return {{1, 2}}; }
/// A product of the first two inputs to which the third is added.
Groups in_factors(const Operator& /*op*/) { return {{0, 2}, {1, 2}}; }
/// MatMulNBits: a product of the first input with a constant, to which input 5 is added.
Groups in_first_and_bias(const Operator& /*op*/) { return {{0, 5}}; }
/// DeformConv: data or weights, and the bias.
Groups in_deformed(const Operator& /*op*/) { return {{0, 3}, {1, 3}}; }
/// A cache and what is written to it.
Groups in_cache(const Operator& /*op*/) { return {{0, 1}}; }

/// A product.
Groups in_each(const Operator& op) {
  Groups groups;
  for (int i = 0; i < std::ssize(op.inputs); ++i) groups.push_back({i});
  return groups;
}

/// A sum, or inputs side by side.
Groups in_all(const Operator& op) {
  std::vector<int> all(op.inputs.size());
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

/// RoiAlign, where it does not take maxima.
Groups in_averages(const Operator& op) {
  return op.node.string_attribute("mode", "avg") == "avg" ? Groups{{0}} : Groups{};
}

/// A scatter that replaces or adds.
Groups in_updates(const Operator& op) {
  const std::string reduction = op.node.string_attribute("reduction", "none");
  return reduction == "none" || reduction == "add" ? Groups{{0, 2}} : Groups{};
}

/// Attention's values, where keys do not come out as well.
Groups in_values(const Operator& op) {
  return op.has_output(1) || op.has_output(3) ? Groups{} : Groups{{2, 5}};
}

/// Pad: what is added is nothing.
Groups in_padded(const Operator& op) {
  if (!op.has_input(2)) return {{0}};
  const auto& value = op.graph.value(op.node.inputs[2]).constant;
  const bool is_zero =
      value && value->has_data() &&
      std::ranges::all_of(value->bytes(), [](auto byte) { return byte == std::byte{}; });
  return is_zero ? Groups{{0}} : Groups{};
}

}  // namespace linear

/// Operators of one domain that split alike.
struct Family {
  std::vector<std::string_view> op_types;
  RuleFunction* rule;
  LinearFunction* linear = nullptr;
  std::string_view domain = "";
};

const Family families[] = {
    // Element-wise, with broadcasting
    {{"Abs", "Ceil", "Clip", "Erf", "Exp", "Floor", "Log", "Max", "Min", "Mod", "Pow", "Reciprocal",
      "Round", "Sign", "Sqrt"},
     rules::elementwise},
    {{"And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Equal", "Greater",
      "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Not", "Or", "Xor"},
     rules::elementwise},
    {{"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Sin", "Sinh", "Tan",
      "Tanh"},
     rules::elementwise},
    {{"Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Relu",
      "Selu", "Shrink", "Sigmoid", "Softplus", "Softsign", "Swish", "ThresholdedRelu"},
     rules::elementwise},
    {{"Add", "Mean", "Sub", "Sum"}, rules::elementwise, linear::in_all},
    {{"BitCast"}, rules::identity},
    {{"Cast", "Div", "Neg"}, rules::elementwise, linear::in_first},
    {{"CastLike"}, rules::cast_like, linear::in_first},
    {{"Dropout"}, rules::dropout, linear::in_first},
    {{"Identity"}, rules::identity, linear::in_first},
    {{"Mul"}, rules::elementwise, linear::in_each},
    {{"Where"}, rules::elementwise, linear::in_branches},
    // Matrix products
    {{"Einsum"}, rules::einsum, linear::in_each},
    {{"Gemm"}, rules::gemm, linear::in_factors},
    {{"MatMul"}, rules::matmul, linear::in_each},
    // Along one dimension
    {{"ArgMax", "ArgMin"}, rules::arg_reduction},
    {{"CumProd"}, rules::cum_sum},
    {{"CumSum"}, rules::cum_sum, linear::in_first},
    {{"DFT"}, rules::dft, linear::in_first},
    {{"Det"}, rules::matrices},
    {{"Hardmax", "TopK"}, rules::along_last_axis},
    {{"LogSoftmax"}, rules::log_softmax},
    {{"LpNormalization"}, rules::lp_normalization},
    {{"OneHot"}, rules::one_hot},
    {{"ReverseSequence"}, rules::reverse_sequence, linear::in_first},
    {{"STFT"}, rules::samples, linear::in_first},
    {{"Softmax"}, rules::softmax},
    {{"Trilu"}, rules::trilu, linear::in_first},
    // Normalisations
    {{"BatchNormalization"}, rules::batch_normalization},
    {{"GroupNormalization"}, rules::group_normalization},
    {{"InstanceNormalization"}, rules::instance_normalization},
    {{"LRN"}, rules::local_response},
    {{"LayerNormalization", "RMSNormalization"}, rules::layer_normalization},
    {{"MeanVarianceNormalization"}, rules::mean_variance_normalization},
    // Reductions
    {{"ReduceL1", "ReduceSumSquare"}, rules::reduce_sum},
    {{"ReduceL2"}, rules::reduce_l2},
    {{"ReduceLogSum"}, rules::reduce_log_sum},
    {{"ReduceLogSumExp"}, rules::reduce_log_sum_exp},
    {{"ReduceMax"}, rules::reduce_max},
    {{"ReduceMean"}, rules::reduce_mean, linear::in_first},
    {{"ReduceMin"}, rules::reduce_min},
    {{"ReduceProd"}, rules::reduce_whole},
    {{"ReduceSum"}, rules::reduce_sum, linear::in_first},
    // Changes of shape
    {{"Flatten", "Unsqueeze"}, rules::change_of_rank, linear::in_first},
    {{"Reshape"}, rules::reshape, linear::in_first},
    {{"Squeeze"}, rules::squeeze, linear::in_first},
    // Movements of data
    {{"Concat"}, rules::concat, linear::in_all},
    {{"DepthToSpace"}, rules::depth_to_space, linear::in_first},
    {{"Expand"}, rules::expand, linear::in_first},
    {{"Pad"}, rules::pad, linear::in_padded},
    {{"Slice"}, rules::slice, linear::in_first},
    {{"SpaceToDepth"}, rules::space_to_depth, linear::in_first},
    {{"Split"}, rules::split, linear::in_first},
    {{"Tile"}, rules::tile, linear::in_first},
    {{"Transpose"}, rules::transpose, linear::in_first},
    // Indexing
    {{"Gather"}, rules::gather, linear::in_first},
    {{"GatherElements"}, rules::gather_elements, linear::in_first},
    {{"GatherND"}, rules::gather_nd, linear::in_first},
    {{"ScatterElements"}, rules::scatter_elements, linear::in_updates},
    {{"ScatterND"}, rules::scatter_nd, linear::in_updates},
    {{"TensorScatter"}, rules::tensor_scatter, linear::in_cache},
    // Convolutions, pooling
    {{"AveragePool"}, rules::pool, linear::in_first},
    {{"Conv"}, rules::convolution, linear::in_factors},
    {{"ConvTranspose"}, rules::transposed_convolution, linear::in_factors},
    {{"DeformConv"}, rules::deformable_convolution, linear::in_deformed},
    {{"GlobalAveragePool"}, rules::global_average_pool, linear::in_first},
    {{"GlobalLpPool", "LpPool", "MaxPool"}, rules::pool},
    {{"GlobalMaxPool"}, rules::global_max_pool},
    // Sampling between elements
    {{"AffineGrid"}, rules::affine_grid, linear::in_first},
    {{"Col2Im"}, rules::col_to_im, linear::in_first},
    {{"GridSample"}, rules::grid_sample, linear::in_first},
    {{"MaxRoiPool"}, rules::roi_pool},
    {{"Resize"}, rules::resize, linear::in_first},
    {{"RoiAlign"}, rules::roi_pool, linear::in_averages},
    // Recurrent networks
    {{"GRU", "LSTM", "RNN"}, rules::recurrent},
    // Quantised tensors
    {{"ConvInteger"}, rules::convolution_integer},
    {{"DequantizeLinear", "QuantizeLinear"}, rules::quantize},
    {{"DynamicQuantizeLinear"}, rules::replicated},
    {{"MatMulInteger"}, rules::matmul_integer},
    {{"QLinearConv"}, rules::qlinear_convolution},
    {{"QLinearMatMul"}, rules::qlinear_matmul},
    {{"MatMulNBits"}, rules::matmul_n_bits, linear::in_first_and_bias, "com.microsoft"},
    // autopar's own
    {{"ExpertMatMulNBits"},
     rules::expert_matmul_n_bits,
     linear::in_first_and_bias,
     graph::own_domain},
    {{"TreeSums"}, rules::tree_sums, nullptr, graph::own_domain},
    // Attention
    {{"Attention"}, rules::attention, linear::in_values},
    {{"RotaryEmbedding"}, rules::rotary_embedding, linear::in_first},
    // Made from shapes, drawn by an element's number, or with positions in the whole tensor:
    // never split, and no reason to warn
    {{"Bernoulli", "BlackmanWindow", "Compress", "ConstantOfShape", "EyeLike", "HammingWindow",
      "HannWindow", "MelWeightMatrix", "Multinomial", "NonZero", "RandomNormal", "RandomNormalLike",
      "RandomUniform", "RandomUniformLike", "Range", "Shape", "Size"},
     rules::replicated},
    {{"MaxUnpool"}, rules::replicated, linear::in_first},
};

}  // namespace

std::span<const RuleEntry> rule_table() {
  static const auto table = [] {
    std::vector<RuleEntry> entries;
    for (const Family& family : families) {
      for (const std::string_view op_type : family.op_types)
        entries.push_back({family.domain, op_type, family.rule, family.linear});
    }
    return entries;
  }();
  return table;
}

const RuleEntry* find_rule(std::string_view domain, std::string_view op_type) {
  static const auto by_name = [] {
    std::map<std::pair<std::string_view, std::string_view>, const RuleEntry*> result;
    for (const RuleEntry& entry : rule_table()) result[{entry.domain, entry.op_type}] = &entry;
    return result;
  }();
  const auto found = by_name.find({domain, op_type});
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace autopar::sharding
