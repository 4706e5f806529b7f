#include "runtime/kernels/cpu/elementwise_blocks.h"
#include "runtime/kernels/elementwise_table.h"

namespace autopar::runtime::cpu {

std::span<const BlockFinder> logical_blocks() {
  return blocks_of(decltype(elementwise_table::logical)::Functions{});
}

}  // namespace autopar::runtime::cpu
