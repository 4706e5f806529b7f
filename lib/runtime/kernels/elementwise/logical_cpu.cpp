#include "runtime/kernels/elementwise/blocks_cpu.h"
#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime::cpu {

std::span<const BlockFinder> logical_blocks() {
  return blocks_of(decltype(elementwise_table::logical)::Functions{});
}

std::span<const BlockFinder> other_blocks() {
  using namespace elementwise_table;
  return blocks_of(Joined<decltype(casts)::Functions, Conversions, Helpers>{});
}

}  // namespace autopar::runtime::cpu
