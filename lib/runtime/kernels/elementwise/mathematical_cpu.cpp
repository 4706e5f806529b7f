#include "runtime/kernels/elementwise/blocks_cpu.h"
#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime::cpu {

std::span<const BlockFinder> mathematical_blocks() {
  return blocks_of(decltype(elementwise_table::mathematical)::Functions{});
}

std::span<const BlockFinder> activation_blocks() {
  return blocks_of(decltype(elementwise_table::activations)::Functions{});
}

}  // namespace autopar::runtime::cpu
