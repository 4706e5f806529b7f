#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "runtime/kernels/collectives.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/data_movement.h"
#include "runtime/kernels/elementwise.h"
#include "runtime/kernels/generators.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using namespace cpu;

/// One line an operator. Views (`true`) run nothing; their factory checks the node and makes a copy
/// where the output must have bytes of its own.
constexpr KernelEntry kernels[] = {
    // Views
    {"", "Reshape", make_copy, true},
    {"", "Flatten", make_copy, true},
    {"", "Squeeze", make_copy, true},
    {"", "Unsqueeze", make_copy, true},
    {"", "Identity", make_copy, true},
    {"", "Dropout", make_dropout, true},
    // Data movement
    {"", "Transpose", make_transpose},
    {"", "Slice", make_slice},
    {"", "Split", make_split},
    {"", "Concat", make_concat},
    {"", "Expand", make_expand},
    {"", "Tile", make_tile},
    {"", "DepthToSpace", make_depth_to_space},
    {"", "SpaceToDepth", make_space_to_depth},
    {"", "Pad", make_pad},
    {"", "Trilu", make_trilu},
    {"", "Gather", make_gather},
    {"", "GatherElements", make_gather_elements},
    {"", "GatherND", make_gather_nd},
    {"", "ScatterElements", make_scatter_elements},
    {"", "ScatterND", make_scatter_nd},
    {"", "OneHot", make_one_hot},
    // Made by the compiler (passes/passes.h)
    {"autopar.internal", "ElementwiseChain", make_elementwise_chain},
    // Generators
    {"", "Constant", make_constant},
    {"", "ConstantOfShape", make_constant_of_shape},
    {"", "Range", make_range},
    {"", "EyeLike", make_eye_like},
    {"", "Shape", make_shape},
    {"", "Size", make_size},
    // Products, normalisations, reductions
    {passes::internal_domain, "FusedMatMul", make_matmul},
    {"", "MatMul", make_matmul},
    {"", "Gemm", make_matmul},
    {"", "Conv", make_conv},
    {"", "Softmax", make_softmax},
    {"", "LogSoftmax", make_log_softmax},
    {"", "LayerNormalization", make_layer_normalization},
    {"", "RMSNormalization", make_rms_normalization},
    {"", "ReduceSum", make_reduce_sum},
    {"", "ReduceMean", make_reduce_mean},
    {"", "ReduceProd", make_reduce_prod},
    {"", "ReduceMax", make_reduce_max},
    {"", "ReduceMin", make_reduce_min},
    {"", "ReduceSumSquare", make_reduce_sum_square},
    {"", "ReduceL1", make_reduce_l1},
    {"", "ReduceL2", make_reduce_l2},
    {"", "CumSum", make_cumsum},
    // Collectives
    {graph::collective_domain, "AllReduce", make_all_reduce},
    {graph::collective_domain, "AllGather", make_all_gather},
    {graph::collective_domain, "ReduceScatter", make_reduce_scatter},
    {graph::collective_domain, "AllToAll", make_all_to_all},
    {graph::collective_domain, "Broadcast", make_broadcast},
};

/// oneDNN wants rows that lie together, and element-wise chains make activations as fast.
bool serves(const graph::Node& node, std::span<const TensorView>, std::span<const TensorView>) {
  constexpr std::array<const char*, 4> others = {"a_perm", "b_perm", "out_perm", "activation"};
  return node.op_type != "FusedMatMul" ||
         std::ranges::none_of(others, [&](const char* name) { return node.has_attribute(name); });
}

}  // namespace

const KernelTable& cpu_kernels() {
  static const KernelTable table = [] {
    std::vector<KernelEntry> entries = elementwise_entries(make_elementwise);
    entries.insert(entries.end(), std::begin(kernels), std::end(kernels));
    return KernelTable{"CPU", std::move(entries), chain_slots, max_chain_slots, serves};
  }();
  return table;
}

}  // namespace autopar::runtime
