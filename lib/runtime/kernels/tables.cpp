#include "runtime/kernels/tables.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::vector<KernelEntry> all_entries(OperatorLine::Devices device) {
  using Devices = OperatorLine::Devices;
  const bool for_cpu = device == Devices::cpu;
  std::vector<KernelEntry> entries;
  for (const auto family :
       {attention_operators(), collective_operators(), control_operators(), convolution_operators(),
        elementwise_operators(), fourier_operators(), generator_operators(), image_operators(),
        movement_operators(), normalization_operators(), own_operators(), product_operators(),
        quantized_operators(), recurrent_operators(), reduction_operators()})
    for (const OperatorLine& line : family)
      if (line.devices == Devices::all || line.devices == device)
        entries.push_back({line.domain, line.op_type, for_cpu == on_cpu ? line.make : nullptr,
                           line.is_view, for_cpu ? line.served.by_cpu : line.served.by_cuda});
  return entries;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
