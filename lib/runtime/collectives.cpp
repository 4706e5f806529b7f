#include "runtime/collectives.h"

#include "graph/error.h"

namespace autopar::runtime {

Communicator& CollectiveContext::group(const std::vector<int>& ranks) {
  std::unique_ptr<Communicator>& made = groups_[ranks];
  if (!made) made = world_.subgroup(ranks);
  return *made;
}

void CollectiveContext::count(const bundle::CollectiveTotal& call) {
  bundle::add_collective(totals_, call);
}

}  // namespace autopar::runtime
