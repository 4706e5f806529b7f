#include "runtime/collectives.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "runtime/comm/staged_communicator.h"
#include "runtime/device.h"

namespace autopar::runtime {

CollectiveContext::CollectiveContext(HostCommunicator& host, std::chrono::milliseconds timeout)
    : own_world_(make_shared_memory_communicator(host)),
      world_(*own_world_),
      host_(host),
      timeout_(timeout) {}

void CollectiveContext::enter_stage(const std::vector<std::vector<int>>& stages,
                                    const Device* device) {
  require(groups_.empty(), "groups are made within stages");
  if (stages.size() <= 1) return;
  stage_of_.assign(static_cast<std::size_t>(world_.size()), 0);
  for (std::size_t s = 0; s < stages.size(); ++s)
    for (const int rank : stages[s])
      stage_of_.at(static_cast<std::size_t>(rank)) = static_cast<int>(s);
  stage_ranks_ = stages[static_cast<std::size_t>(stage_of(world_rank()))];
  stage_ = world_.subgroup(stage_ranks_);
  stage_host_ = host_.subgroup(stage_ranks_);
  if (world_.joins_queue()) {
    require(device != nullptr, "a communicator that joins a queue is one for a device's memory");
    connect_stages(stages, *device);
  }
}

/// A communicator's calls wait for one another, and receiving and sending must not. So each two
/// neighbouring stages get one of their own, in two rounds, as no rank may be in two groups that
/// are made at once.
void CollectiveContext::connect_stages(const std::vector<std::vector<int>>& stages,
                                       const Device& device) {
  const auto mine = static_cast<std::size_t>(stage_of(world_rank()));
  for (const std::size_t round : {0U, 1U}) {
    // This rank's stage and the next one, or the one before and this.
    const bool sends = mine % 2 == round;
    const std::size_t before = sends ? mine : mine - 1;
    if ((!sends && mine == 0) || before + 1 >= stages.size()) {
      world_.subgroup(std::vector<int>{world_rank()});
      continue;
    }
    Link& link = sends ? send_link_ : receive_link_;
    link.ranks = stages[before];
    link.ranks.insert(link.ranks.end(), stages[before + 1].begin(), stages[before + 1].end());
    link.communicator = world_.subgroup(link.ranks);
    link.communicator->join_queue(device.queue(sends ? Queue::send : Queue::receive));
  }
}

CollectiveContext::Peer CollectiveContext::peer(int world_rank, Queue queue) const {
  const int wanted = stage_of(this->world_rank()) + (queue == Queue::receive ? -1 : 1);
  if (world_rank < 0 || world_rank >= world_size() || stage_of(world_rank) != wanted)
    fail("rank {} {} rank {}, which is not of the stage {} it; partition the model again",
         this->world_rank(), queue == Queue::receive ? "receives from" : "sends to", world_rank,
         queue == Queue::receive ? "before" : "after");
  const Link& link = queue == Queue::receive ? receive_link_ : send_link_;
  if (!link.communicator) return {&world_, world_rank};
  const auto place = std::ranges::find(link.ranks, world_rank);
  return {link.communicator.get(), static_cast<int>(place - link.ranks.begin())};
}

DeviceCommunicator& CollectiveContext::group(const std::vector<int>& ranks) {
  std::unique_ptr<DeviceCommunicator>& made = groups_[ranks];
  if (made) return *made;
  for (const int rank : ranks)
    if (rank < 0 || rank >= world_size())
      fail("a group has rank {}, but there are {}; partition the model again", rank, world_size());
  if (std::ranges::find(ranks, world_rank()) == ranks.end())
    fail("rank {} is to communicate in a group without it; partition the model again",
         world_rank());
  if (!stage_) {
    made = world_.subgroup(ranks);
    return *made;
  }
  std::vector<int> in_stage;
  for (const int rank : ranks) {
    const auto place = std::ranges::find(stage_ranks_, rank);
    if (place == stage_ranks_.end())
      fail("rank {} is to communicate with rank {} of another stage; partition the model again",
           world_rank(), rank);
    in_stage.push_back(static_cast<int>(place - stage_ranks_.begin()));
  }
  made = stage_->subgroup(in_stage);
  return *made;
}

bool all_agree(HostCommunicator& host, bool mine) {
  host.barrier();
  std::int32_t agreed = mine ? 1 : 0;
  host.all_reduce(reinterpret_cast<std::byte*>(&agreed), reinterpret_cast<std::byte*>(&agreed), 1,
                  graph::DataType::int32, ReduceOp::min);
  return agreed != 0;
}

bool are_all_alike(HostCommunicator& host, std::uint64_t mine) {
  host.barrier();
  std::array<std::uint64_t, 2> of_all = {mine, ~mine};  // their maxima, ~least being the second
  host.all_reduce(reinterpret_cast<std::byte*>(of_all.data()),
                  reinterpret_cast<std::byte*>(of_all.data()), 2, graph::DataType::uint64,
                  ReduceOp::max);
  return of_all[0] == ~of_all[1];
}

void CollectiveContext::check_members() {
  world_.check_members();
  for (const auto* each : {&stage_, &receive_link_.communicator, &send_link_.communicator})
    if (*each) (*each)->check_members();
  for (const auto& [ranks, group] : groups_) group->check_members();
}

void CollectiveContext::abort() noexcept {
  world_.abort();
  for (const auto* each : {&stage_, &receive_link_.communicator, &send_link_.communicator})
    if (*each) (*each)->abort();
  for (const auto& [ranks, group] : groups_) group->abort();
}

std::vector<int> CollectiveContext::ranks_behind(std::span<const int> ranks,
                                                 std::int64_t progress) const {
  std::vector<int> behind;
  for (const int rank : ranks) {
    const auto reported = host_.progress_of(rank);
    if (reported && *reported < progress) behind.push_back(rank);
  }
  return behind;
}

}  // namespace autopar::runtime
