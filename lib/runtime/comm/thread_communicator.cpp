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
#include "base/usable_cores.h"
#include "base/wait_until.h"
#include "runtime/comm/signs_of_life.h"
#include "runtime/comm/transport_communicator.h"

namespace autopar::runtime {

namespace {

using Clock = std::chrono::steady_clock;

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

/// What the members of one group share. An exchange is: publish the blocks, meet, read the others'
/// memory, meet again so that nobody leaves while it is read.
struct SharedGroup {
  SharedGroup(std::vector<int> world_ranks, std::chrono::milliseconds usual_timeout,
              std::chrono::microseconds time_awake, std::shared_ptr<SignsOfLife> of_world)
      : ranks(std::move(world_ranks)),
        timeout(usual_timeout),
        awake(time_awake),
        signs(std::move(of_world)),
        published(ranks.size()),
        progress(ranks.size()),
        is_here(ranks.size()) {}

  std::vector<int> ranks;  ///< world ranks, for messages
  std::chrono::milliseconds timeout;
  std::chrono::microseconds awake;  ///< how long a rank looks out for the others before it sleeps
  std::shared_ptr<SignsOfLife> signs;                 ///< of the world's ranks
  std::vector<std::span<const SendBlock>> published;  ///< by rank: its blocks by rank
  std::vector<std::atomic<std::int64_t>> progress;    ///< by rank

  std::mutex mutex;
  std::condition_variable met;
  std::size_t num_here = 0;
  std::vector<bool> is_here;
  std::atomic<std::uint64_t> meeting = 0;  ///< how many there have been
  std::atomic<bool> aborted = false;
  /// Message slots by sender and receiver; made when one of them comes.
  std::map<std::pair<int, int>, std::unique_ptr<MessageSlot>> slots;
  /// Subgroups by their ranks within this group.
  std::map<std::vector<int>, std::shared_ptr<SharedGroup>> subgroups;
};

/// Ends all waits within the group. Its lock is held.
void give_up(SharedGroup& group) {
  group.aborted = true;
  group.met.notify_all();
  for (auto& [ends, slot] : group.slots) {
    const std::lock_guard lock(slot->mutex);
    slot->changed.notify_all();
  }
}

/// The same within its subgroups, too.
void abort_group(SharedGroup& group) {
  const std::lock_guard lock(group.mutex);
  give_up(group);
  for (auto& [members, subgroup] : group.subgroups) abort_group(*subgroup);
}

[[noreturn]] void fail_all(SharedGroup& group, const std::string& why) {
  {
    const std::lock_guard lock(group.mutex);
    give_up(group);
  }
  throw Error(why);
}

[[noreturn]] void fail_aborted(const char* collective) {
  throw GivenUp(fmt::format("{} was given up: another rank failed", collective));
}

MessageSlot& slot_of(SharedGroup& group, int from, int to) {
  const std::lock_guard lock(group.mutex);
  std::unique_ptr<MessageSlot>& made = group.slots[{from, to}];
  if (!made) made = std::make_unique<MessageSlot>();
  return *made;
}

/// Waits as this rank until `is_over`, or until somebody is to blame that it is not: who did not
/// come, for all to be told. Empty in time. `missing`: whom it waits for, as world ranks. With a
/// timeout of its own a wait asks for no signs until then.
template <typename IsOver, typename Missing>
std::string wait_for(const SharedGroup& group, int rank, std::condition_variable& changed,
                     std::unique_lock<std::mutex>& lock, const char* what,
                     std::optional<std::chrono::milliseconds> own_timeout, const IsOver& is_over,
                     const Missing& missing) {
  const int world_rank = group.ranks[at(rank)];
  Vigil vigil(*group.signs, world_rank, own_timeout.value_or(group.timeout), Clock::now());
  while (!changed.wait_until(lock, vigil.next_look(), is_over)) {
    const auto now = Clock::now();
    if (!own_timeout) group.signs->hear(world_rank, Sign::waits, now);
    const std::vector<int> blamed = vigil.to_blame(missing(), now);
    if (!blamed.empty()) return vigil.absence(what, blamed, now);
  }
  return {};
}

/// Whether a meeting is over before the time to sleep: sleeping and being woken takes as long as a
/// small kernel. It never yields, which costs a whole slice of a process that never waits.
bool is_over_soon(const SharedGroup& group, std::uint64_t meeting) {
  const auto end = Clock::now() + group.awake;
  while (group.meeting == meeting)
    if (Clock::now() >= end) return false;
  return true;
}

void meet(SharedGroup& group, int rank, const char* what,
          std::optional<std::chrono::milliseconds> own_timeout = {}) {
  std::unique_lock lock(group.mutex);
  if (group.aborted) fail_aborted(what);
  group.is_here[at(rank)] = true;
  const std::uint64_t mine = group.meeting;
  if (++group.num_here == group.ranks.size()) {
    group.num_here = 0;
    group.is_here.assign(group.ranks.size(), false);
    ++group.meeting;
    group.met.notify_all();
    return;
  }
  lock.unlock();
  if (is_over_soon(group, mine)) return;
  lock.lock();
  const auto not_here = [&] {
    std::vector<int> missing;
    for (std::size_t r = 0; r < group.ranks.size(); ++r)
      if (!group.is_here[r]) missing.push_back(group.ranks[r]);
    return missing;
  };
  const std::string absence = wait_for(
      group, rank, group.met, lock, what, own_timeout,
      [&] { return group.meeting != mine || group.aborted; }, not_here);
  if (group.meeting != mine) return;
  if (absence.empty()) fail_aborted(what);
  lock.unlock();
  fail_all(group, absence);
}

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
      shared = std::make_shared<SharedGroup>(std::move(world_ranks), group_->timeout, group_->awake,
                                             group_->signs);
      shared->aborted = group_->aborted.load();
    }
    return std::make_unique<ThreadCommunicator>(shared, static_cast<int>(me - members.begin()));
  }

  void send(const std::byte* data, std::int64_t bytes, int to) override {
    MessageSlot& slot = slot_of(*group_, rank_, to);
    std::unique_lock lock(slot.mutex);
    if (group_->aborted) fail_aborted("a send");
    slot.data = data;
    slot.bytes = bytes;
    slot.state = MessageSlot::State::offered;
    slot.changed.notify_all();
    const std::uint64_t mine = slot.taken;
    const std::string absence = wait_for(
        *group_, rank_, slot.changed, lock, "a send", {},
        [&] { return slot.taken != mine || group_->aborted; },
        [&] { return std::vector{world_rank(to)}; });
    // Whatever happened, the receiver must not be left reading memory that changes.
    wait_until(slot.changed, lock, [&] { return slot.state != MessageSlot::State::copied_from; });
    const bool is_taken = slot.taken != mine;
    const std::string refusal = slot.refusal;
    slot.state = MessageSlot::State::empty;
    lock.unlock();
    if (!refusal.empty()) throw Error(refusal);
    if (is_taken) return;
    if (absence.empty()) fail_aborted("a send");
    fail_all(*group_, absence);
  }

  void receive(std::byte* out, std::int64_t bytes, int from) override {
    MessageSlot& slot = slot_of(*group_, from, rank_);
    std::unique_lock lock(slot.mutex);
    const std::string absence = wait_for(
        *group_, rank_, slot.changed, lock, "a receive", {},
        [&] { return slot.state == MessageSlot::State::offered || group_->aborted; },
        [&] { return std::vector{world_rank(from)}; });
    if (group_->aborted) fail_aborted("a receive");
    if (!absence.empty()) {
      lock.unlock();
      fail_all(*group_, absence);
    }
    if (slot.bytes != bytes) {
      const std::string why = fmt::format(
          "rank {} sends {} bytes to rank {}, which waits for {}: were both made for one plan?",
          world_rank(from), slot.bytes, world_rank(rank_), bytes);
      slot.refusal = why;
      ++slot.taken;
      slot.changed.notify_all();
      lock.unlock();
      fail_all(*group_, why);
    }
    slot.state = MessageSlot::State::copied_from;
    lock.unlock();
    if (bytes > 0) std::memcpy(out, slot.data, static_cast<std::size_t>(bytes));
    lock.lock();
    slot.state = MessageSlot::State::empty;
    ++slot.taken;
    slot.changed.notify_all();
  }

  void barrier(std::optional<std::chrono::milliseconds> timeout) override {
    meet(*group_, rank_, "barrier", timeout);
  }

  void check_members() override {
    const std::lock_guard lock(group_->mutex);
    if (group_->aborted) fail_aborted("the run");
  }

  void note_work() override {
    if (group_->aborted) fail_aborted("the work");
    SignsOfLife& signs = *group_->signs;
    const auto now = Clock::now();
    const int me = world_rank(rank_);
    if (now - signs.last_work(me) >= sign_interval(group_->timeout))
      signs.hear(me, Sign::works, now);
  }

  void report_progress(std::int64_t progress) override { group_->progress[at(rank_)] = progress; }
  std::optional<std::int64_t> progress_of(int rank) const override {
    return group_->progress[at(rank)];
  }

  void abort() noexcept override { abort_group(*group_); }

 private:
  int world_rank(int rank) const { return group_->ranks[at(rank)]; }

  /// The others' blocks are read where they lie, so that nothing is copied but what has a place.
  void exchange(const char* what, std::span<const SendBlock> sends,
                std::span<ReceiveBlock> receives) override {
    group_->published[at(rank_)] = sends;
    meet(*group_, rank_, what);
    for (int peer = 0; peer < size(); ++peer) {
      ReceiveBlock& receive = receives[at(peer)];
      if (peer == rank_ || receive.bytes == no_block) continue;
      const SendBlock& sent = group_->published[at(peer)][at(rank_)];
      if (sent.bytes != receive.bytes)
        fail("rank {} is at {} of {} bytes, but rank {} at {} of {}: is the plan one for all?",
             world_rank(rank_), what, receive.bytes, world_rank(peer), what, sent.bytes);
      receive.place = receive.out != nullptr ? receive.out : sent.data;
      if (receive.out != nullptr && sent.bytes > 0)
        std::memcpy(receive.out, sent.data, at(sent.bytes));
    }
  }

  void release(const char* what) override { meet(*group_, rank_, what); }

  std::shared_ptr<SharedGroup> group_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<HostCommunicator>> make_thread_communicators(
    int size, std::chrono::milliseconds timeout) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  const auto signs = std::make_shared<SignsOfLife>(size);
  // Where ranks share cores, one that looks out keeps those that it waits for from working.
  const std::chrono::microseconds awake{at(size) <= usable_cores() ? 50 : 0};
  const auto group = std::make_shared<SharedGroup>(ranks, timeout, awake, signs);
  std::vector<std::unique_ptr<HostCommunicator>> communicators;
  for (const int rank : ranks)
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  return communicators;
}

}  // namespace autopar::runtime
