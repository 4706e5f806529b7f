#include "runtime/comm/tcp_communicator.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "runtime/comm/transfer.h"
#include "runtime/comm/transport_communicator.h"

namespace autopar::runtime {

namespace {

class TcpCommunicator final : public TransportCommunicator {
 public:
  /// `members`: the world's ranks in this group, in order.
  TcpCommunicator(std::shared_ptr<Connections> connections, std::vector<int> members)
      : connections_(std::move(connections)), members_(std::move(members)) {
    const auto me = std::ranges::find(members_, connections_->rank());
    require(me != members_.end(), "a rank makes only subgroups that it is in");
    rank_ = static_cast<int>(me - members_.begin());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

  std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) override {
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(members_[at(rank)]);
    return std::make_unique<TcpCommunicator>(connections_, std::move(members));
  }

  void send(const std::byte* data, std::int64_t bytes, int to) override {
    Transfer transfer(*connections_, "a send", {}, message_label);
    transfer.send(members_[at(to)], data, bytes);
    transfer.finish();
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    Transfer transfer(*connections_, "a receive", {}, message_label);
    transfer.receive(members_[at(from)], out, bytes);
    transfer.finish();
  }

  void barrier(std::optional<std::chrono::milliseconds> timeout) override {
    if (takes_rounds()) return barrier_in_rounds(timeout);
    const std::vector<SendBlock> empty(members_.size(), {.bytes = 0});
    std::vector<ReceiveBlock> receives(members_.size(), {.bytes = 0});
    exchange_within(timeout, "barrier", empty, receives);
  }

  void await_cause() override { connections_->await_cause("the run"); }

  bool encrypts() const override { return connections_->network().encrypts(); }

  void note_work() override {
    if (connections_->tell(Sign::works)) connections_->check("the work");
  }

  void check_members() override {
    connections_->check("the run");
    for (const int member : members_) {
      if (connections_->has_left(member)) connections_->lose("the run", member);
    }
  }

  void abort() noexcept override { connections_->fail_here(); }

 private:
  /// A rank of a larger group has connections with a few others alone, unless it needs more.
  bool takes_rounds() const override { return size() > 32; }

  /// In each round ranks hear from twice as far (Hensgen, Finkel and Manber 1988).
  void barrier_in_rounds(std::optional<std::chrono::milliseconds> timeout) {
    for (int distance = 1; distance < size(); distance *= 2) {
      std::vector<SendBlock> sends(members_.size());
      std::vector<ReceiveBlock> receives(members_.size());
      sends[at((rank_ + distance) % size())].bytes = 0;
      receives[at((rank_ - distance + size()) % size())].bytes = 0;
      exchange_within(timeout, "barrier", sends, receives);
    }
  }

  void exchange(const char* what, std::span<const SendBlock> sends,
                std::span<ReceiveBlock> receives) override {
    provide_memory(receives);
    exchange_within({}, what, sends, receives);
  }

  void exchange_within(std::optional<std::chrono::milliseconds> timeout, const char* what,
                       std::span<const SendBlock> sends, std::span<ReceiveBlock> receives) {
    Transfer transfer(*connections_, what, timeout, what);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      const SendBlock& sent = sends[at(peer)];
      const ReceiveBlock& received = receives[at(peer)];
      if (sent.bytes != no_block) transfer.send(members_[at(peer)], sent.data, sent.bytes);
      if (received.bytes != no_block)
        transfer.receive(members_[at(peer)], received.out, received.bytes);
    }
    transfer.finish();
  }

  std::shared_ptr<Connections> connections_;
  std::vector<int> members_;
  int rank_ = 0;
};

}  // namespace

std::unique_ptr<HostCommunicator> make_tcp_communicator(const Rendezvous& rendezvous) {
  std::vector<int> all(at(rendezvous.size));
  std::iota(all.begin(), all.end(), 0);
  auto connections = std::make_shared<Connections>(
      meet(rendezvous), *rendezvous.network, rendezvous.run_timeout.value_or(rendezvous.timeout));
  connections->join(rendezvous.timeout);
  return std::make_unique<TcpCommunicator>(std::move(connections), std::move(all));
}

}  // namespace autopar::runtime
