#include "runtime/kernels/cpu/elementwise_blocks.h"
#include "runtime/kernels/elementwise_table.h"

namespace autopar::runtime::cpu {

std::span<const BlockFinder> mathematical_blocks() {
  return blocks_of(decltype(elementwise_table::mathematical)::Functions{});
}

}  // namespace autopar::runtime::cpu
