#include <algorithm>

#include "runtime/kernel.h"
#include "runtime/kernels/library/library_operator.h"

namespace autopar::runtime {

const KernelEntry* KernelTable::find(std::string_view domain, std::string_view op_type) const {
  const auto found = std::ranges::find_if(entries, [&](const KernelEntry& entry) {
    return entry.op_type == op_type && entry.domain == domain;
  });
  if (found != entries.end()) return &*found;
  return find_library_kernel(domain, op_type, /*on_gpu=*/device != cpu_kernels().device);
}

}  // namespace autopar::runtime
