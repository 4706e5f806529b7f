#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {
namespace cpu {
/// oneDNN's LRN, of float32 images with as many channels counted before a channel as behind it;
/// null for all others.
MakeKernel make_onednn_lrn;
}  // namespace cpu

namespace AUTOPAR_DEVICE {

MakeKernel make_softmax, make_log_softmax, make_masked_softmax;
MakeKernel make_layer_normalization, make_rms_normalization, make_batch_normalization;
/// GroupNormalization and InstanceNormalization.
MakeKernel make_group_normalization;
MakeKernel make_lrn, make_lp_normalization;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
