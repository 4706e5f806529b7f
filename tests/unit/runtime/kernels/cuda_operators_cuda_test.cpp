// What is known of CUDA's kernels where there is no CUDA is true of its table.

#include "runtime/kernels/cuda_operators.h"

#include <catch2/catch.hpp>
#include <set>
#include <tuple>

#include "runtime/devices/cuda/cuda_device.h"

namespace autopar::runtime {
namespace {

/// Domain, operator, whether it is a view, and what of it is served.
using Name = std::tuple<std::string, std::string, bool, ServesNode>;

std::set<Name> names(const KernelTable& table) {
  std::set<Name> all;
  for (const KernelEntry& entry : table.entries)
    all.emplace(entry.domain, entry.op_type, entry.is_view, entry.serves);
  CHECK(all.size() == table.entries.size());
  return all;
}

TEST_CASE("CUDA's table has the operators, views and fusions that plans count with") {
  CHECK(names(cuda_operators()) == names(cuda::kernels()));
  CHECK(cuda_operators().chain_slots == cuda::kernels().chain_slots);
  CHECK(cuda_operators().max_chain_slots == cuda::kernels().max_chain_slots);
}

}  // namespace
}  // namespace autopar::runtime
