#include <iterator>
#include <utility>
#include <vector>

#include "graph/own_operators.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/attention/attention_cuda.h"
#include "runtime/kernels/collective/collectives.h"
#include "runtime/kernels/common/common_table.h"
#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda_operators.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/own/own_operators_cuda.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::cuda {
namespace {

/// One line an operator, beside those of kernels/common_table.cpp and elementwise_table.h, before
/// which these count. cuda_operators() has the same names.
constexpr KernelEntry lines[] = {
    // Data movement
    {"", "Pad", make_pad},
    {"", "Trilu", make_trilu},
    {"", "Gather", make_gather},
    {"", "GatherElements", make_gather_elements},
    {"", "GatherND", make_gather_nd},
    {"", "ScatterElements", make_scatter_elements},
    {"", "ScatterND", make_scatter_nd},
    {"", "OneHot", make_one_hot},
    // Element-wise but for types that no operator computes in
    {"", "Cast", make_cast},
    {"", "CastLike", make_cast},
    {"", "TensorScatter", make_tensor_scatter},
    // Generators
    {"", "Range", make_range},
    {"", "EyeLike", make_eye_like},
    // Products
    {passes::internal_domain, "FusedMatMul", make_matmul},
    {passes::internal_domain, "GatheredMatMul", make_gathered_matmul},
    {"", "MatMul", make_matmul},
    {"", "Gemm", make_matmul},
    {"com.microsoft", "MatMulNBits", make_matmul_n_bits},
    {graph::own_domain, "ExpertMatMulNBits", make_expert_matmul_n_bits},
    {"", "Conv", make_conv},
    // Made by the compiler (passes/passes.h)
    {passes::internal_domain, "ElementwiseChain", make_elementwise_chain},
    // Normalisations, reductions
    {"", "Softmax", make_softmax},
    {"", "LogSoftmax", make_log_softmax},
    {passes::internal_domain, "MaskedSoftmax", make_masked_softmax},
    {"", "LayerNormalization", make_layer_normalization},
    {"", "RMSNormalization", make_rms_normalization},
    {"", "Attention", make_attention},
    {passes::internal_domain, "Attention", make_attention},
    {"", "RotaryEmbedding", make_rotary_embedding},
    {passes::internal_domain, "RotaryEmbedding", make_rotary_embedding},
    {"", "ReduceSum", make_reduce_sum},
    {"", "ReduceMean", make_reduce_mean},
    {"", "ReduceProd", make_reduce_prod},
    {"", "ReduceMax", make_reduce_max},
    {"", "ReduceMin", make_reduce_min},
    {"", "ReduceSumSquare", make_reduce_sum_square},
    {"", "ReduceLogSum", make_reduce_log_sum},
    {"", "ReduceLogSumExp", make_reduce_log_sum_exp},
    {"", "ReduceL1", make_reduce_l1},
    {"", "ReduceL2", make_reduce_l2},
    {"", "CumSum", make_cumsum},
    {"", "CumProd", make_cumprod},
    {"", "ArgMax", make_arg_max},
    {"", "ArgMin", make_arg_min},
    {"", "Hardmax", make_hardmax},
    {"", "TopK", make_top_k},
    // Random numbers, and what is rare
    {"", "RandomUniform", make_random_uniform},
    {"", "RandomUniformLike", make_random_uniform},
    {"", "RandomNormal", make_random_normal},
    {"", "RandomNormalLike", make_random_normal},
    {"", "Bernoulli", make_bernoulli},
    {"", "Multinomial", make_multinomial},
    {"", "ReverseSequence", make_reverse_sequence},
    {"", "Det", make_determinant},
    {graph::own_domain, "TreeSums", make_tree_sums},
    {passes::internal_domain, "FourierRows", make_fourier_rows},
    {passes::internal_domain, "RecurrentCell", make_recurrent_cell},
    // Quantisation
    {"", "QuantizeLinear", make_quantize_linear},
    {"", "DequantizeLinear", make_dequantize_linear},
    {"", "MatMulInteger", make_matmul_integer},
    {"", "ConvInteger", make_conv_integer},
    {passes::internal_domain, "QuantizedMatMul", make_quantized_matmul},
    {passes::internal_domain, "QuantizedConv", make_quantized_conv},
    {passes::internal_domain, "Requantize", make_requantize},
    // Images
    {"", "AveragePool", make_average_pool},
    {"", "MaxPool", make_max_pool},
    {"", "LpPool", make_lp_pool},
    {"", "GlobalLpPool", make_lp_pool},
    {"", "GlobalAveragePool", make_global_average_pool},
    {"", "GlobalMaxPool", make_global_max_pool},
    {"", "BatchNormalization", make_batch_normalization},
    {"", "InstanceNormalization", make_group_normalization},
    {"", "GroupNormalization", make_group_normalization},
    {"", "LRN", make_lrn},
    {"", "LpNormalization", make_lp_normalization},
    {"", "ConvTranspose", make_conv_transpose},
    {"", "DeformConv", make_deform_conv},
    {"", "Col2Im", make_col2im},
    {"", "MaxUnpool", make_max_unpool},
    {"", "Resize", make_resize},
    {"", "GridSample", make_grid_sample},
    {"", "AffineGrid", make_affine_grid},
    {"", "RoiAlign", make_roi_align},
    {"", "MaxRoiPool", make_max_roi_pool},
    // Collectives
    {passes::internal_domain, "CollectiveGroup", make_collective_group},
};

}  // namespace

const KernelTable& kernels() {
  static const KernelTable table{"CUDA", device_entries(lines, make_elementwise), chain_slots,
                                 max_chain_slots, serves};
  return table;
}

}  // namespace autopar::runtime::cuda
