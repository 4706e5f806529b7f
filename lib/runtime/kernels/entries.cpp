#include "runtime/kernels/tables.h"

namespace autopar::runtime {

std::vector<KernelEntry> cpu_entries(std::span<const OperatorLine> lines) {
  std::vector<KernelEntry> entries;
  for (const OperatorLine& line : lines)
    if (line.devices != OperatorLine::Devices::cuda)
      entries.push_back({line.domain, line.op_type, line.make, line.is_view, line.served.by_cpu});
  return entries;
}

std::vector<KernelEntry> cuda_entries(std::span<const OperatorLine> lines) {
  std::vector<KernelEntry> entries;
  for (const OperatorLine& line : lines)
    if (line.devices != OperatorLine::Devices::cpu)
      entries.push_back({line.domain, line.op_type, line.make, line.is_view, line.served.by_cuda});
  return entries;
}

}  // namespace autopar::runtime
