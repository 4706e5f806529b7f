#include <algorithm>

#include "runtime/kernel.h"

namespace autopar::runtime {

const KernelEntry* KernelTable::find(std::string_view domain, std::string_view op_type) const {
  const auto found = std::ranges::find_if(entries, [&](const KernelEntry& entry) {
    return entry.op_type == op_type && entry.domain == domain;
  });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace autopar::runtime
