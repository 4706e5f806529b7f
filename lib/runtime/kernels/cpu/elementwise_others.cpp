#include "runtime/kernels/cpu/elementwise_blocks.h"
#include "runtime/kernels/elementwise_table.h"

namespace autopar::runtime::cpu {

std::span<const BlockFinder> other_blocks() {
  using namespace elementwise_table;
  return blocks_of(Joined<decltype(casts)::Functions, Conversions, Helpers>{});
}

}  // namespace autopar::runtime::cpu
