#include "runtime/kernels/common/common_table.h"

#include <algorithm>

#include "runtime/kernels/collective/collectives.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/fourier/fourier.h"
#include "runtime/kernels/generator/generators.h"
#include "runtime/kernels/movement/compress.h"
#include "runtime/kernels/movement/data_movement.h"
#include "runtime/kernels/product/einsum.h"
#include "runtime/kernels/quantized/quantized_products.h"
#include "runtime/kernels/recurrent/recurrent.h"

namespace autopar::runtime {
namespace {

/// Views (`true`) run nothing; their factory checks the node and makes a copy where the output must
/// have bytes of its own.
std::vector<KernelEntry> common_entries() {
  return {
      // Views
      {"", "Reshape", make_copy, true},
      {"", "Flatten", make_copy, true},
      {"", "Squeeze", make_copy, true},
      {"", "Unsqueeze", make_copy, true},
      {"", "Identity", make_copy, true},
      {"", "Dropout", make_dropout, true},
      {"", "BitCast", make_copy, true},
      // Data movement
      {"", "Transpose", make_transpose},
      {"", "Slice", make_slice},
      {"", "Split", make_split},
      {"", "Concat", make_concat},
      {"", "Expand", make_expand},
      {"", "Tile", make_tile},
      {"", "DepthToSpace", make_depth_to_space},
      {"", "SpaceToDepth", make_space_to_depth},
      // Generators
      {"", "Constant", make_constant},
      {"", "ConstantOfShape", make_constant_of_shape},
      {"", "Shape", make_shape},
      {"", "Size", make_size},
      // Made of other kernels
      {"", "Einsum", make_einsum},
      {"", "Compress", make_compress},
      {"", "DFT", make_dft},
      {"", "STFT", make_stft},
      {"", "MelWeightMatrix", make_mel_weight_matrix},
      {"", "RNN", make_rnn},
      {"", "GRU", make_gru},
      {"", "LSTM", make_lstm},
      {"", "QLinearMatMul", make_qlinear_matmul},
      {"", "QLinearConv", make_qlinear_conv},
      // Collectives
      {graph::collective_domain, "AllReduce", make_all_reduce},
      {graph::collective_domain, "AllGather", make_all_gather},
      {graph::collective_domain, "ReduceScatter", make_reduce_scatter},
      {graph::collective_domain, "AllToAll", make_all_to_all},
      {graph::collective_domain, "Broadcast", make_broadcast},
      {graph::collective_domain, "Send", make_send},
      {graph::collective_domain, "Recv", make_recv},
  };
}

}  // namespace

std::vector<KernelEntry> device_entries(std::span<const KernelEntry> own,
                                        KernelFactory make_elementwise) {
  std::vector<KernelEntry> entries = common_entries();
  entries.insert(entries.end(), own.begin(), own.end());
  for (const KernelEntry& entry : elementwise_entries(make_elementwise)) {
    const auto is_same = [&](const KernelEntry& line) {
      return line.domain == entry.domain && line.op_type == entry.op_type;
    };
    if (std::ranges::none_of(own, is_same)) entries.push_back(entry);
  }
  return entries;
}

}  // namespace autopar::runtime
