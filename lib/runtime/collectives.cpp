#include "runtime/collectives.h"

#include "graph/error.h"

namespace autopar::runtime {

Communicator& CollectiveContext::group(const std::vector<int>& ranks) {
  std::unique_ptr<Communicator>& made = groups_[ranks];
  if (!made) made = world_.subgroup(ranks);
  return *made;
}

bool all_agree(Communicator& host, bool mine) {
  host.barrier(loading_timeout);
  std::int32_t agreed = mine ? 1 : 0;
  host.all_reduce(reinterpret_cast<std::byte*>(&agreed), 1, graph::DataType::int32, ReduceOp::min);
  return agreed != 0;
}

void CollectiveContext::check_members() {
  world_.check_members();
  for (const auto& [ranks, group] : groups_) group->check_members();
}

void CollectiveContext::abort() noexcept {
  world_.abort();
  for (const auto& [ranks, group] : groups_) group->abort();
}

std::vector<int> CollectiveContext::ranks_behind(std::span<const int> ranks,
                                                 std::int64_t progress) const {
  std::vector<int> behind;
  for (const int rank : ranks) {
    const auto reported = world_.progress_of(rank);
    if (reported && *reported < progress) behind.push_back(rank);
  }
  return behind;
}

void CollectiveContext::count(const bundle::CollectiveTotal& call) {
  bundle::add_collective(totals_, call);
}

}  // namespace autopar::runtime
