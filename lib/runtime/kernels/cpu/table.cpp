#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "graph/own_operators.h"
#include "runtime/kernels/attention/attention_cpu.h"
#include "runtime/kernels/common/common_table.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/own/own_operators_cpu.h"
#include "runtime/kernels/product/gathered_matmul_cpu.h"
#include "runtime/kernels/quantized/quantized_conv_cpu.h"
#include "runtime/kernels/quantized/quantized_matmul_cpu.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using namespace cpu;

/// One line an operator, beside those of kernels/common_table.cpp and elementwise_table.h, before
/// which these count.
constexpr KernelEntry kernels[] = {
    // Data movement
    {"", "Pad", make_pad},
    {"", "Trilu", make_trilu},
    {"", "Gather", make_gather},
    {"", "GatherElements", make_gather_elements},
    {"", "GatherND", make_gather_nd},
    {"", "ScatterElements", make_scatter_elements},
    {"", "ScatterND", make_scatter_nd},
    {"", "OneHot", make_one_hot},
    {"", "TensorScatter", make_tensor_scatter},
    // Made by the compiler (passes/passes.h)
    {passes::internal_domain, "ElementwiseChain", make_elementwise_chain},
    // Element-wise but for types that no operator computes in
    {"", "Cast", make_cast},
    {"", "CastLike", make_cast},
    // Generators
    {"", "Range", make_range},
    {"", "EyeLike", make_eye_like},
    // Products, normalisations, reductions
    {passes::internal_domain, "FusedMatMul", make_matmul},
    {passes::internal_domain, "GatheredMatMul", make_gathered_matmul},
    {"", "MatMul", make_matmul},
    {"", "Gemm", make_matmul},
    {"com.microsoft", "MatMulNBits", make_matmul_n_bits},
    {graph::own_domain, "ExpertMatMulNBits", make_expert_matmul_n_bits},
    {"", "Conv", make_conv},
    {passes::internal_domain, "QuantizedConv", make_quantized_conv},
    {"", "Softmax", make_softmax},
    {"", "LogSoftmax", make_log_softmax},
    {passes::internal_domain, "MaskedSoftmax", make_masked_softmax},
    {"", "Attention", make_attention},
    {passes::internal_domain, "Attention", make_attention},
    {"", "RotaryEmbedding", make_rotary_embedding},
    {passes::internal_domain, "RotaryEmbedding", make_rotary_embedding},
    {"", "LayerNormalization", make_layer_normalization},
    {"", "RMSNormalization", make_rms_normalization},
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
    {"", "Loop", make_loop},
    // Quantisation
    {"", "QuantizeLinear", make_quantize_linear},
    {"", "DequantizeLinear", make_dequantize_linear},
    {"", "MatMulInteger", make_matmul_integer},
    {"", "ConvInteger", make_conv_integer},
    {passes::internal_domain, "QuantizedMatMul", make_quantized_matmul},
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
};

/// oneDNN wants rows that lie together, and element-wise chains make activations as fast.
bool serves_fused_matmul(const graph::Node& node) {
  constexpr std::array<const char*, 4> others = {"a_perm", "b_perm", "out_perm", "activation"};
  return std::ranges::none_of(others, [&](const char* name) { return node.has_attribute(name); });
}

/// What passes may make.
bool serves(const graph::Node& node, std::span<const TensorView> inputs,
            std::span<const TensorView> outputs) {
  if (node.op_type == "FusedMatMul") return serves_fused_matmul(node);
  if (node.op_type == "QuantizedMatMul") return serves_quantized_matmul(inputs, outputs);
  if (node.op_type == "QuantizedConv") return serves_quantized_conv(inputs, outputs);
  if (node.op_type == "GatheredMatMul") return serves_gathered_matmul(inputs);
  if (node.op_type == "Attention") return serves_attention(node, inputs, outputs);
  if (node.op_type == "RotaryEmbedding") return serves_rotary_embedding(node, inputs, outputs);
  return true;
}

}  // namespace

const KernelTable& cpu_kernels() {
  static const KernelTable table{"CPU", device_entries(kernels, make_elementwise), chain_slots,
                                 max_chain_slots, serves};
  return table;
}

}  // namespace autopar::runtime
