#include "runtime/kernels/normalization/kernels.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> normalization_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "Softmax", make_softmax},
      {"", "LogSoftmax", make_log_softmax},
      {passes::internal_domain, "MaskedSoftmax", make_masked_softmax, false,
       served(nullptr, cuda::serves_masked_softmax)},
      {"", "LayerNormalization", make_layer_normalization},
      {"", "RMSNormalization", make_rms_normalization},
      {"", "BatchNormalization", make_batch_normalization},
      {"", "InstanceNormalization", make_group_normalization},
      {"", "GroupNormalization", make_group_normalization},
      {passes::internal_domain, "ChannelsLastGroupNormalization",
       on_cpu ? cpu::make_channels_last_normalization : nullptr, false,
       served(cpu::serves_channels_last_normalization, nullptr), OperatorLine::Devices::cpu},
      {"", "LRN", make_lrn},
      {"", "LpNormalization", make_lp_normalization},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
