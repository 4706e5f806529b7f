#include "runtime/kernels/elementwise/blocks_cpu.h"
#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime::cpu {

std::span<const BlockFinder> logical_blocks() {
  using namespace elementwise_table;
  return blocks_of(
      Joined<decltype(logical)::Functions, decltype(casts)::Functions, Conversions, Helpers>{});
}

}  // namespace autopar::runtime::cpu
