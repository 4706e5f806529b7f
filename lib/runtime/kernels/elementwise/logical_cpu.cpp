#include "runtime/kernels/elementwise/blocks_cpu.h"
#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime::cpu {

std::span<const BlockFinder> logical_blocks() {
  return blocks_of(decltype(elementwise_table::logical)::Functions{});
}

}  // namespace autopar::runtime::cpu
