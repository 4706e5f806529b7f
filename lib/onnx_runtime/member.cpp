#include "onnx_runtime/member.h"

#include <algorithm>

#include "base/error.h"

namespace autopar::onnx_runtime {

using runtime::HostCommunicator;

void Member::fail_again() const {
  fail("rank {}: a rank has failed before, and with it all ranks; open all their sessions again",
       rank());
}

HostCommunicator& Member::group(const std::vector<int>& ranks) {
  if (std::ssize(ranks) == size() && std::ranges::is_sorted(ranks)) return *world_;
  std::unique_ptr<HostCommunicator>& made = groups_[ranks];
  if (!made) made = world_->subgroup(ranks);
  return *made;
}

void Member::send(int peer, std::uint64_t id, std::span<const std::byte> message) {
  const Header header{id, std::ssize(message)};
  world_->send(reinterpret_cast<const std::byte*>(&header), sizeof header, peer);
  world_->send(message.data(), header.bytes, peer);
}

void Member::receive(int peer, std::uint64_t id, std::span<std::byte> message) {
  std::deque<std::vector<std::byte>>& early = early_[{peer, id}];
  if (!early.empty()) {
    if (early.front().size() != message.size())
      fail("rank {} sends {} bytes to rank {}, which waits for {}: were both made for one plan?",
           peer, early.front().size(), rank(), message.size());
    std::ranges::copy(early.front(), message.begin());
    early.pop_front();
    return;
  }
  while (true) {
    const Header header = receive_header(peer);
    if (header.id == id) {
      if (header.bytes != std::ssize(message))
        fail("rank {} sends {} bytes to rank {}, which waits for {}: were both made for one plan?",
             peer, header.bytes, rank(), message.size());
      return world_->receive(message.data(), header.bytes, peer);
    }
    std::vector<std::byte>& kept = early_[{peer, header.id}].emplace_back(header.bytes);
    world_->receive(kept.data(), header.bytes, peer);
  }
}

Member::Header Member::receive_header(int peer) {
  Header header;
  world_->receive(reinterpret_cast<std::byte*>(&header), sizeof header, peer);
  if (header.bytes < 0) fail("rank {} told of a message of {} bytes", peer, header.bytes);
  return header;
}

}  // namespace autopar::onnx_runtime
