#pragma once

#include <optional>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {
namespace cpu {
/// oneDNN's LRN, of float32 images with as many channels counted before a channel as behind it;
/// null for all others.
MakeKernel make_onednn_lrn;
/// GroupNormalization of float32 images whose channels are last.
MakeKernel make_channels_last_normalization;
Serves serves_channels_last_normalization;
}  // namespace cpu

namespace cuda {
/// A mask's strides along rows, merged, and along columns.
struct MaskLayout {
  static constexpr int max_dimensions = 4;

  Shape extents;
  std::vector<std::int64_t> strides;
  std::int64_t column_stride = 0;
};
/// nullopt where MaskedSoftmax does not take the mask, input 1, to input 0.
std::optional<MaskLayout> mask_layout(std::span<const TensorView> inputs);

Serves serves_masked_softmax;
}  // namespace cuda

namespace AUTOPAR_DEVICE {

MakeKernel make_softmax, make_log_softmax, make_masked_softmax;
MakeKernel make_layer_normalization, make_rms_normalization, make_batch_normalization;
/// GroupNormalization and InstanceNormalization.
MakeKernel make_group_normalization;
MakeKernel make_lrn, make_lp_normalization;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
