#include "runtime/comm/thread_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/comm/transport_communicator.h"

namespace autopar::runtime {

namespace {

/// Where messages from one rank to another change hands: the sender shows its memory, the receiver
/// copies from there, the sender goes on.
struct MessageSlot {
  enum class State { empty, offered, copied_from };
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::empty;
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;
  std::uint64_t taken = 0;  ///< messages that the receiver is done with
  std::string refusal;      ///< why the receiver does not take the message
};

/// How many of each rank's threads wait for other ranks, in whatever group.
using Waits = std::vector<std::atomic<int>>;

/// What the members of one group share. An exchange is: publish the blocks, meet, read the others'
/// memory, meet again so that nobody leaves while it is read.
struct SharedGroup {
  SharedGroup(std::vector<int> world_ranks, std::chrono::milliseconds usual_timeout,
              std::shared_ptr<Waits> of_world)
      : ranks(std::move(world_ranks)),
        timeout(usual_timeout),
        waits(std::move(of_world)),
        published(ranks.size()),
        progress(ranks.size()),
        is_here(ranks.size()) {}

  std::vector<int> ranks;  ///< world ranks, for messages
  std::chrono::milliseconds timeout;
  std::shared_ptr<Waits> waits;                       ///< by world rank
  std::vector<std::span<const SendBlock>> published;  ///< by rank: its blocks by rank
  std::vector<std::atomic<std::int64_t>> progress;    ///< by rank

  std::mutex mutex;
  std::condition_variable met;
  std::size_t num_here = 0;
  std::vector<bool> is_here;
  std::uint64_t meeting = 0;
  std::atomic<bool> aborted = false;
  /// Message slots by sender and receiver; made when one of them comes.
  std::map<std::pair<int, int>, std::unique_ptr<MessageSlot>> slots;
  /// Subgroups by their ranks within this group.
  std::map<std::vector<int>, std::shared_ptr<SharedGroup>> subgroups;

  void abort() {
    const std::lock_guard lock(mutex);
    give_up();
    for (auto& [members, group] : subgroups) group->abort();
  }

  /// The lock is held.
  void give_up() {
    aborted = true;
    met.notify_all();
    for (auto& [ends, slot] : slots) {
      const std::lock_guard lock(slot->mutex);
      slot->changed.notify_all();
    }
  }

  MessageSlot& slot_of(int from, int to) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<MessageSlot>& made = slots[{from, to}];
    if (!made) made = std::make_unique<MessageSlot>();
    return *made;
  }

  /// The ranks among `missing` that do not wait themselves.
  std::vector<int> idle(std::vector<int> missing) const {
    std::erase_if(missing, [this](int rank) { return (*waits)[at(world_rank(rank))] > 0; });
    return missing;
  }

  /// How a rank's wait ended.
  struct Waited {
    bool in_time = true;
    std::chrono::milliseconds patience{};
    std::vector<int> absent;  ///< where it was not in time: who is to blame, as ranks of the group
  };

  /// Waits until `is_over` or for the timeout, which is doubled where all that are missing wait for
  /// others: these have their names from them by then. Who waits is not to blame, unless all do.
  template <typename IsOver, typename Missing>
  Waited wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, int rank,
                  std::chrono::milliseconds patience, const IsOver& is_over,
                  const Missing& missing) {
    std::atomic<int>& waiting = (*waits)[at(world_rank(rank))];
    ++waiting;
    bool in_time = changed.wait_for(lock, patience, is_over);
    if (!in_time && idle(missing()).empty()) {
      in_time = changed.wait_for(lock, patience, is_over);
      patience *= 2;
    }
    const std::vector<int> absent = in_time ? std::vector<int>() : idle(missing());
    --waiting;
    if (in_time) return {};
    return {false, patience, absent.empty() ? missing() : absent};
  }

  void send(const std::byte* data, std::int64_t bytes, int from, int to) {
    MessageSlot& slot = slot_of(from, to);
    std::unique_lock lock(slot.mutex);
    if (aborted) fail_aborted("a send");
    slot.data = data;
    slot.bytes = bytes;
    slot.state = MessageSlot::State::offered;
    slot.changed.notify_all();
    const std::uint64_t mine = slot.taken;
    const auto is_over = [&] { return slot.taken != mine || aborted; };
    const Waited waited =
        wait_for(slot.changed, lock, from, timeout, is_over, [&] { return std::vector{to}; });
    // Whatever happened, the receiver must not be left reading memory that changes.
    slot.changed.wait(lock, [&] { return slot.state != MessageSlot::State::copied_from; });
    const bool is_taken = slot.taken != mine;
    const std::string refusal = slot.refusal;
    slot.state = MessageSlot::State::empty;
    lock.unlock();
    if (!refusal.empty()) throw Error(refusal);
    if (is_taken) return;
    if (waited.in_time) fail_aborted("a send");
    fail_absent("a send", from, waited);
  }

  void receive(std::byte* out, std::int64_t bytes, int from, int to) {
    MessageSlot& slot = slot_of(from, to);
    std::unique_lock lock(slot.mutex);
    const auto is_offered = [&] { return slot.state == MessageSlot::State::offered || aborted; };
    const Waited waited =
        wait_for(slot.changed, lock, to, timeout, is_offered, [&] { return std::vector{from}; });
    if (aborted) fail_aborted("a receive");
    if (!waited.in_time) {
      lock.unlock();
      fail_absent("a receive", to, waited);
    }
    if (slot.bytes != bytes) {
      slot.refusal = fmt::format(
          "rank {} sends {} bytes to rank {}, which waits for {}: were both made for one plan?",
          world_rank(from), slot.bytes, world_rank(to), bytes);
      const std::string why = slot.refusal;
      ++slot.taken;
      slot.changed.notify_all();
      lock.unlock();
      const std::lock_guard all(mutex);
      give_up();
      throw Error(why);
    }
    slot.state = MessageSlot::State::copied_from;
    lock.unlock();
    if (bytes > 0) std::memcpy(out, slot.data, static_cast<std::size_t>(bytes));
    lock.lock();
    slot.state = MessageSlot::State::empty;
    ++slot.taken;
    slot.changed.notify_all();
  }

  int world_rank(int rank) const { return ranks[at(rank)]; }

  [[noreturn]] void fail_absent(const char* what, int waiting, const Waited& waited) {
    {
      const std::lock_guard lock(mutex);
      give_up();
    }
    std::vector<int> absent;
    for (const int rank : waited.absent) absent.push_back(world_rank(rank));
    fail("rank {}: {} waited {} ms for rank(s) {}; they did not come", world_rank(waiting), what,
         waited.patience.count(), fmt::join(absent, ", "));
  }

  void meet(int rank, const char* collective,
            std::optional<std::chrono::milliseconds> patience = {}) {
    std::unique_lock lock(mutex);
    if (aborted) fail_aborted(collective);
    is_here[at(rank)] = true;
    const std::uint64_t mine = meeting;
    if (++num_here == ranks.size()) {
      num_here = 0;
      is_here.assign(ranks.size(), false);
      ++meeting;
      met.notify_all();
      return;
    }
    const Waited waited = wait_for(
        met, lock, rank, patience.value_or(timeout), [&] { return meeting != mine || aborted; },
        [&] { return not_here(); });
    if (meeting != mine) return;
    if (waited.in_time) fail_aborted(collective);
    lock.unlock();
    fail_absent(collective, rank, waited);
  }

  std::vector<int> not_here() const {
    std::vector<int> missing;
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank)
      if (!is_here[at(rank)]) missing.push_back(rank);
    return missing;
  }

  [[noreturn]] static void fail_aborted(const char* collective) {
    throw GivenUp(fmt::format("{} was given up: another rank failed", collective));
  }
};

class ThreadCommunicator final : public TransportCommunicator {
 public:
  ThreadCommunicator(std::shared_ptr<SharedGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }

  std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) override {
    const std::vector<int> members(ranks.begin(), ranks.end());
    const auto me = std::ranges::find(members, rank_);
    require(me != members.end(), "a rank makes only subgroups that it is in");
    const std::lock_guard lock(group_->mutex);
    std::shared_ptr<SharedGroup>& shared = group_->subgroups[members];
    if (!shared) {
      std::vector<int> world_ranks;
      for (const int member : members) world_ranks.push_back(group_->ranks[at(member)]);
      shared =
          std::make_shared<SharedGroup>(std::move(world_ranks), group_->timeout, group_->waits);
      shared->aborted = group_->aborted.load();
    }
    return std::make_unique<ThreadCommunicator>(shared, static_cast<int>(me - members.begin()));
  }

  void send(const std::byte* data, std::int64_t length, int to) override {
    group_->send(data, length, rank_, to);
  }
  void receive(std::byte* out, std::int64_t length, int from) override {
    group_->receive(out, length, from, rank_);
  }

  void barrier() override { group_->meet(rank_, "barrier"); }
  void barrier(std::chrono::milliseconds timeout) override {
    group_->meet(rank_, "barrier", timeout);
  }

  void check_members() override {
    const std::lock_guard lock(group_->mutex);
    if (group_->aborted) SharedGroup::fail_aborted("the run");
  }

  void report_progress(std::int64_t progress) override { group_->progress[at(rank_)] = progress; }
  std::optional<std::int64_t> progress_of(int rank) const override {
    return group_->progress[at(rank)];
  }

  void abort() noexcept override { group_->abort(); }

 private:
  /// The others' blocks are read where they lie, so that nothing is copied but what has a place.
  void exchange(const char* what, std::span<const SendBlock> sends,
                std::span<ReceiveBlock> receives) override {
    group_->published[at(rank_)] = sends;
    group_->meet(rank_, what);
    for (int peer = 0; peer < size(); ++peer) {
      ReceiveBlock& receive = receives[at(peer)];
      if (peer == rank_ || receive.bytes == no_block) continue;
      const SendBlock& sent = group_->published[at(peer)][at(rank_)];
      if (sent.bytes != receive.bytes)
        fail("rank {} is at {} of {} bytes, but rank {} at {} of {}: is the plan one for all?",
             group_->world_rank(rank_), what, receive.bytes, group_->world_rank(peer), what,
             sent.bytes);
      receive.place = receive.out != nullptr ? receive.out : sent.data;
      if (receive.out != nullptr && sent.bytes > 0)
        std::memcpy(receive.out, sent.data, at(sent.bytes));
    }
  }

  void release(const char* what) override { group_->meet(rank_, what); }

  std::shared_ptr<SharedGroup> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<HostCommunicator>> make_thread_communicators(
    int size, std::chrono::milliseconds timeout) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  const auto waits = std::make_shared<Waits>(static_cast<std::size_t>(size));
  const auto group = std::make_shared<SharedGroup>(ranks, timeout, waits);
  std::vector<std::unique_ptr<HostCommunicator>> communicators;
  for (const int rank : ranks)
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  return communicators;
}

}  // namespace autopar::runtime
