#include "sharding/rules/table.h"

#include <map>
#include <utility>

#include "graph/own_operators.h"
#include "sharding/rules/linear.h"
#include "sharding/rules/own.h"
#include "sharding/rules/rules.h"

namespace autopar::sharding {
namespace {

constexpr RuleEntry table[] = {
    // Element-wise, with broadcasting
    {"", "Abs", rules::elementwise},
    {"", "Acos", rules::elementwise},
    {"", "Acosh", rules::elementwise},
    {"", "Add", rules::elementwise, linear::in_all},
    {"", "And", rules::elementwise},
    {"", "Asin", rules::elementwise},
    {"", "Asinh", rules::elementwise},
    {"", "Atan", rules::elementwise},
    {"", "Atanh", rules::elementwise},
    {"", "BitCast", rules::identity},
    {"", "BitShift", rules::elementwise},
    {"", "BitwiseAnd", rules::elementwise},
    {"", "BitwiseNot", rules::elementwise},
    {"", "BitwiseOr", rules::elementwise},
    {"", "BitwiseXor", rules::elementwise},
    {"", "Cast", rules::elementwise, linear::in_first},
    {"", "CastLike", rules::cast_like, linear::in_first},
    {"", "Ceil", rules::elementwise},
    {"", "Celu", rules::elementwise},
    {"", "Clip", rules::elementwise},
    {"", "Cos", rules::elementwise},
    {"", "Cosh", rules::elementwise},
    {"", "Div", rules::elementwise, linear::in_first},
    {"", "Dropout", rules::dropout, linear::in_first},
    {"", "Elu", rules::elementwise},
    {"", "Equal", rules::elementwise},
    {"", "Erf", rules::elementwise},
    {"", "Exp", rules::elementwise},
    {"", "Floor", rules::elementwise},
    {"", "Gelu", rules::elementwise},
    {"", "Greater", rules::elementwise},
    {"", "GreaterOrEqual", rules::elementwise},
    {"", "HardSigmoid", rules::elementwise},
    {"", "HardSwish", rules::elementwise},
    {"", "Identity", rules::identity, linear::in_first},
    {"", "IsInf", rules::elementwise},
    {"", "IsNaN", rules::elementwise},
    {"", "LeakyRelu", rules::elementwise},
    {"", "Less", rules::elementwise},
    {"", "LessOrEqual", rules::elementwise},
    {"", "Log", rules::elementwise},
    {"", "Max", rules::elementwise},
    {"", "Mean", rules::elementwise, linear::in_all},
    {"", "Min", rules::elementwise},
    {"", "Mish", rules::elementwise},
    {"", "Mod", rules::elementwise},
    {"", "Mul", rules::elementwise, linear::in_each},
    {"", "Neg", rules::elementwise, linear::in_first},
    {"", "Not", rules::elementwise},
    {"", "Or", rules::elementwise},
    {"", "PRelu", rules::elementwise},
    {"", "Pow", rules::elementwise},
    {"", "Reciprocal", rules::elementwise},
    {"", "Relu", rules::elementwise},
    {"", "Round", rules::elementwise},
    {"", "Selu", rules::elementwise},
    {"", "Shrink", rules::elementwise},
    {"", "Sigmoid", rules::elementwise},
    {"", "Sign", rules::elementwise},
    {"", "Sin", rules::elementwise},
    {"", "Sinh", rules::elementwise},
    {"", "Softplus", rules::elementwise},
    {"", "Softsign", rules::elementwise},
    {"", "Sqrt", rules::elementwise},
    {"", "Sub", rules::elementwise, linear::in_all},
    {"", "Sum", rules::elementwise, linear::in_all},
    {"", "Swish", rules::elementwise},
    {"", "Tan", rules::elementwise},
    {"", "Tanh", rules::elementwise},
    {"", "ThresholdedRelu", rules::elementwise},
    {"", "Where", rules::elementwise, linear::in_branches},
    {"", "Xor", rules::elementwise},
    // Matrix products
    {"", "Einsum", rules::einsum, linear::in_each},
    {"", "Gemm", rules::gemm, linear::in_factors},
    {"", "MatMul", rules::matmul, linear::in_each},
    // Along one dimension
    {"", "ArgMax", rules::arg_reduction},
    {"", "ArgMin", rules::arg_reduction},
    {"", "CumProd", rules::cum_sum},
    {"", "CumSum", rules::cum_sum, linear::in_first},
    {"", "DFT", rules::dft, linear::in_first},
    {"", "Det", rules::matrices},
    {"", "Hardmax", rules::along_last_axis},
    {"", "LogSoftmax", rules::log_softmax},
    {"", "LpNormalization", rules::lp_normalization},
    {"", "OneHot", rules::one_hot},
    {"", "ReverseSequence", rules::reverse_sequence, linear::in_first},
    {"", "STFT", rules::samples, linear::in_first},
    {"", "Softmax", rules::softmax},
    {"", "TopK", rules::along_last_axis},
    {"", "Trilu", rules::trilu, linear::in_first},
    // Normalisations
    {"", "BatchNormalization", rules::batch_normalization},
    {"", "GroupNormalization", rules::group_normalization},
    {"", "InstanceNormalization", rules::instance_normalization},
    {"", "LRN", rules::local_response},
    {"", "LayerNormalization", rules::layer_normalization},
    {"", "MeanVarianceNormalization", rules::mean_variance_normalization},
    {"", "RMSNormalization", rules::layer_normalization},
    // Reductions
    {"", "ReduceL1", rules::reduce_sum},
    {"", "ReduceL2", rules::reduce_l2},
    {"", "ReduceLogSum", rules::reduce_log_sum},
    {"", "ReduceLogSumExp", rules::reduce_log_sum_exp},
    {"", "ReduceMax", rules::reduce_max},
    {"", "ReduceMean", rules::reduce_mean, linear::in_first},
    {"", "ReduceMin", rules::reduce_min},
    {"", "ReduceProd", rules::reduce_whole},
    {"", "ReduceSum", rules::reduce_sum, linear::in_first},
    {"", "ReduceSumSquare", rules::reduce_sum},
    // Changes of shape
    {"", "Flatten", rules::change_of_rank, linear::in_first},
    {"", "Reshape", rules::reshape, linear::in_first},
    {"", "Squeeze", rules::squeeze, linear::in_first},
    {"", "Unsqueeze", rules::change_of_rank, linear::in_first},
    // Movements of data
    {"", "Concat", rules::concat, linear::in_all},
    {"", "DepthToSpace", rules::depth_to_space, linear::in_first},
    {"", "Expand", rules::expand, linear::in_first},
    {"", "Pad", rules::pad, linear::in_padded},
    {"", "Slice", rules::slice, linear::in_first},
    {"", "SpaceToDepth", rules::space_to_depth, linear::in_first},
    {"", "Split", rules::split, linear::in_first},
    {"", "Tile", rules::tile, linear::in_first},
    {"", "Transpose", rules::transpose, linear::in_first},
    // Indexing
    {"", "Gather", rules::gather, linear::in_first},
    {"", "GatherElements", rules::gather_elements, linear::in_first},
    {"", "GatherND", rules::gather_nd, linear::in_first},
    {"", "ScatterElements", rules::scatter_elements, linear::in_updates},
    {"", "ScatterND", rules::scatter_nd, linear::in_updates},
    {"", "TensorScatter", rules::tensor_scatter, linear::in_cache},
    // Convolutions, pooling
    {"", "AveragePool", rules::pool, linear::in_first},
    {"", "Conv", rules::convolution, linear::in_factors},
    {"", "ConvTranspose", rules::transposed_convolution, linear::in_factors},
    {"", "DeformConv", rules::deformable_convolution, linear::in_deformed},
    {"", "GlobalAveragePool", rules::global_average_pool, linear::in_first},
    {"", "GlobalLpPool", rules::pool},
    {"", "GlobalMaxPool", rules::global_max_pool},
    {"", "LpPool", rules::pool},
    {"", "MaxPool", rules::pool},
    // Sampling between elements
    {"", "AffineGrid", rules::affine_grid, linear::in_first},
    {"", "Col2Im", rules::col_to_im, linear::in_first},
    {"", "GridSample", rules::grid_sample, linear::in_first},
    {"", "MaxRoiPool", rules::roi_pool},
    {"", "Resize", rules::resize, linear::in_first},
    {"", "RoiAlign", rules::roi_pool, linear::in_averages},
    // Recurrent networks
    {"", "GRU", rules::recurrent},
    {"", "LSTM", rules::recurrent},
    {"", "RNN", rules::recurrent},
    // Quantised tensors
    {"", "ConvInteger", rules::convolution_integer},
    {"", "DequantizeLinear", rules::quantize},
    {"", "DynamicQuantizeLinear", replicated_rule},
    {"", "MatMulInteger", rules::matmul_integer},
    {"", "QLinearConv", rules::qlinear_convolution},
    {"", "QLinearMatMul", rules::qlinear_matmul},
    {"", "QuantizeLinear", rules::quantize},
    {"com.microsoft", "MatMulNBits", rules::matmul_n_bits, linear::in_first_and_bias},
    // autopar's own
    {graph::own_domain, "ExpertMatMulNBits", rules::expert_matmul_n_bits,
     linear::in_first_and_bias},
    {graph::own_domain, "TreeSums", rules::tree_sums},
    // Attention
    {"", "Attention", rules::attention, linear::in_values},
    {"", "RotaryEmbedding", rules::rotary_embedding, linear::in_first},
    // Made from shapes, drawn by an element's number, or with positions in the whole tensor: never
    // split, and no reason to warn
    {"", "Bernoulli", replicated_rule},
    {"", "BlackmanWindow", replicated_rule},
    {"", "Compress", replicated_rule},
    {"", "ConstantOfShape", replicated_rule},
    {"", "EyeLike", replicated_rule},
    {"", "HammingWindow", replicated_rule},
    {"", "HannWindow", replicated_rule},
    {"", "MaxUnpool", replicated_rule, linear::in_first},
    {"", "MelWeightMatrix", replicated_rule},
    {"", "Multinomial", replicated_rule},
    {"", "NonZero", replicated_rule},
    {"", "RandomNormal", replicated_rule},
    {"", "RandomNormalLike", replicated_rule},
    {"", "RandomUniform", replicated_rule},
    {"", "RandomUniformLike", replicated_rule},
    {"", "Range", replicated_rule},
    {"", "Shape", replicated_rule},
    {"", "Size", replicated_rule},
};

}  // namespace

std::span<const RuleEntry> rule_table() { return table; }

const RuleEntry* find_rule(std::string_view domain, std::string_view op_type) {
  static const auto by_name = [] {
    std::map<std::pair<std::string_view, std::string_view>, const RuleEntry*> result;
    for (const RuleEntry& entry : table) result[{entry.domain, entry.op_type}] = &entry;
    return result;
  }();
  const auto found = by_name.find({domain, op_type});
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace autopar::sharding
