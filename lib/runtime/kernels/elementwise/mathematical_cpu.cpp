#include "runtime/kernels/elementwise/blocks_cpu.h"
#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime::cpu {

std::span<const BlockFinder> mathematical_blocks() {
  using namespace elementwise_table;
  return blocks_of(Joined<decltype(mathematical)::Functions, decltype(activations)::Functions>{});
}

}  // namespace autopar::runtime::cpu
