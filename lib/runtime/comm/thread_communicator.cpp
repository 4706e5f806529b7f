#include "runtime/comm/thread_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "runtime/comm/reduce.h"

namespace autopar::runtime {

namespace {

/// Where messages from one rank to another change hands: the sender shows its memory, the receiver
/// copies from there, the sender goes on.
struct Exchange {
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

/// A wait of a rank of the world, told to the others as long as it lasts.
class Wait {
 public:
  Wait(Waits& waits, int rank) : count_(waits[static_cast<std::size_t>(rank)]) { ++count_; }
  ~Wait() { --count_; }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

 private:
  std::atomic<int>& count_;
};

/// What the members of one group share. A collective is: publish a pointer, meet, read the others'
/// memory, meet again so that nobody leaves while it is read.
struct SharedGroup {
  SharedGroup(std::vector<int> world_ranks, std::chrono::milliseconds usual_timeout,
              std::shared_ptr<Waits> of_world)
      : ranks(std::move(world_ranks)),
        timeout(usual_timeout),
        waits(std::move(of_world)),
        published(ranks.size()),
        progress(ranks.size()) {}

  std::vector<int> ranks;  ///< world ranks, for messages
  std::chrono::milliseconds timeout;
  std::shared_ptr<Waits> waits;  ///< by world rank
  std::vector<const std::byte*> published;
  std::vector<std::atomic<std::int64_t>> progress;  ///< by rank

  std::mutex mutex;
  std::condition_variable met;
  std::size_t arrived = 0;
  std::vector<bool> is_here;
  std::uint64_t meeting = 0;
  std::atomic<bool> aborted = false;
  /// By sender and receiver; made when one of them comes.
  std::map<std::pair<int, int>, std::unique_ptr<Exchange>> exchanges;
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
    for (auto& [ends, exchange] : exchanges) {
      const std::lock_guard lock(exchange->mutex);
      exchange->changed.notify_all();
    }
  }

  Exchange& exchange(int from, int to) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<Exchange>& made = exchanges[{from, to}];
    if (!made) made = std::make_unique<Exchange>();
    return *made;
  }

  /// Those of these ranks of the group that do not wait themselves.
  std::vector<int> idle(std::vector<int> missing) const {
    std::erase_if(missing, [this](int rank) {
      return (*waits)[static_cast<std::size_t>(world_rank(rank))] > 0;
    });
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
    const Wait wait(*waits, world_rank(rank));
    if (changed.wait_for(lock, patience, is_over)) return {};
    if (idle(missing()).empty()) {
      if (changed.wait_for(lock, patience, is_over)) return {};
      patience *= 2;
    }
    const std::vector<int> absent = idle(missing());
    return {false, patience, absent.empty() ? missing() : absent};
  }

  void send(const std::byte* data, std::int64_t bytes, int from, int to) {
    Exchange& at = exchange(from, to);
    std::unique_lock lock(at.mutex);
    if (aborted) fail_aborted("a send");
    at.data = data;
    at.bytes = bytes;
    at.state = Exchange::State::offered;
    at.changed.notify_all();
    const std::uint64_t mine = at.taken;
    const auto is_over = [&] { return at.taken != mine || aborted; };
    const Waited waited =
        wait_for(at.changed, lock, from, timeout, is_over, [&] { return std::vector{to}; });
    // Whatever happened, the receiver must not be left reading memory that changes.
    at.changed.wait(lock, [&] { return at.state != Exchange::State::copied_from; });
    const bool is_taken = at.taken != mine;
    const std::string refusal = at.refusal;
    at.state = Exchange::State::empty;
    lock.unlock();
    if (!refusal.empty()) throw Error(refusal);
    if (is_taken) return;
    if (waited.in_time) fail_aborted("a send");
    fail_absent("a send", from, waited);
  }

  void receive(std::byte* out, std::int64_t bytes, int from, int to) {
    Exchange& at = exchange(from, to);
    std::unique_lock lock(at.mutex);
    const auto is_offered = [&] { return at.state == Exchange::State::offered || aborted; };
    const Waited waited =
        wait_for(at.changed, lock, to, timeout, is_offered, [&] { return std::vector{from}; });
    if (aborted) fail_aborted("a receive");
    if (!waited.in_time) {
      lock.unlock();
      fail_absent("a receive", to, waited);
    }
    if (at.bytes != bytes) {
      at.refusal = fmt::format(
          "rank {} sends {} bytes to rank {}, which waits for {}: were both made for one plan?",
          world_rank(from), at.bytes, world_rank(to), bytes);
      const std::string why = at.refusal;
      ++at.taken;
      at.changed.notify_all();
      lock.unlock();
      const std::lock_guard all(mutex);
      give_up();
      throw Error(why);
    }
    at.state = Exchange::State::copied_from;
    lock.unlock();
    if (bytes > 0) std::memcpy(out, at.data, static_cast<std::size_t>(bytes));
    lock.lock();
    at.state = Exchange::State::empty;
    ++at.taken;
    at.changed.notify_all();
  }

  int world_rank(int rank) const { return ranks[static_cast<std::size_t>(rank)]; }

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

  void meet(int rank, const char* collective) { meet(rank, collective, timeout); }

  void meet(int rank, const char* collective, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex);
    if (aborted) fail_aborted(collective);
    is_here.resize(ranks.size());
    is_here[static_cast<std::size_t>(rank)] = true;
    const std::uint64_t mine = meeting;
    if (++arrived == ranks.size()) {
      arrived = 0;
      is_here.assign(ranks.size(), false);
      ++meeting;
      met.notify_all();
      return;
    }
    const Waited waited = wait_for(
        met, lock, rank, patience, [&] { return meeting != mine || aborted; },
        [&] { return not_here(); });
    if (meeting != mine) return;
    if (waited.in_time) fail_aborted(collective);
    lock.unlock();
    fail_absent(collective, rank, waited);
  }

  std::vector<int> not_here() const {
    std::vector<int> missing;
    for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank)
      if (!is_here[static_cast<std::size_t>(rank)]) missing.push_back(rank);
    return missing;
  }

  [[noreturn]] static void fail_aborted(const char* collective) {
    throw GivenUp(fmt::format("{} was given up: another rank failed", collective));
  }
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<SharedGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->ranks.size()); }

  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override {
    const std::vector<int> members(ranks.begin(), ranks.end());
    const auto me = std::ranges::find(members, rank_);
    require(me != members.end(), "a rank makes only subgroups that it is in");
    const std::lock_guard lock(group_->mutex);
    std::shared_ptr<SharedGroup>& shared = group_->subgroups[members];
    if (!shared) {
      std::vector<int> world_ranks;
      for (const int member : members) {
        world_ranks.push_back(group_->ranks[static_cast<std::size_t>(member)]);
      }
      shared =
          std::make_shared<SharedGroup>(std::move(world_ranks), group_->timeout, group_->waits);
      shared->aborted = group_->aborted.load();
    }
    return std::make_unique<ThreadCommunicator>(shared, static_cast<int>(me - members.begin()));
  }

  /// Each rank reduces its share of the elements, in rank order, so that every rank ends with the
  /// same bits; then all copy the others' shares.
  void all_reduce(std::byte* data, std::int64_t elements, graph::DataType type,
                  ReduceOp op) override {
    const std::int64_t size_of = graph::bytes_of(type, 1);
    const std::int64_t share = (elements + size() - 1) / size();
    const auto begin_of = [&](int rank) { return std::min(elements, share * rank); };
    const std::int64_t begin = begin_of(rank_);
    const std::int64_t count = begin_of(rank_ + 1) - begin;

    publish(data, "all-reduce");
    buffer_.resize(std::max(buffer_.size(), static_cast<std::size_t>(share * size_of)));
    reduce_published(begin * size_of, count, type, op, buffer_.data());
    group_->meet(rank_, "all-reduce");
    if (count > 0) std::memcpy(data + begin * size_of, buffer_.data(), bytes(count * size_of));
    group_->meet(rank_, "all-reduce");
    for (int peer = 0; peer < size(); ++peer) {
      const std::int64_t from = begin_of(peer) * size_of;
      const std::int64_t length = begin_of(peer + 1) * size_of - from;
      if (peer != rank_ && length > 0) {
        std::memcpy(data + from, published(peer) + from, bytes(length));
      }
    }
    group_->meet(rank_, "all-reduce");
  }

  void all_gather(const std::byte* in, std::byte* out,
                  std::span<const std::int64_t> block_bytes) override {
    publish(in, "all-gather");
    for (int peer = 0; peer < size(); ++peer) {
      const std::int64_t length = block_bytes[static_cast<std::size_t>(peer)];
      if (length > 0) std::memcpy(out, published(peer), bytes(length));
      out += length;
    }
    group_->meet(rank_, "all-gather");
  }

  void reduce_scatter(const std::byte* in, std::byte* out,
                      std::span<const std::int64_t> block_elements, graph::DataType type,
                      ReduceOp op) override {
    publish(in, "reduce-scatter");
    std::int64_t begin = 0;
    for (int peer = 0; peer < rank_; ++peer)
      begin += block_elements[static_cast<std::size_t>(peer)];
    reduce_published(graph::bytes_of(type, begin), block_elements[static_cast<std::size_t>(rank_)],
                     type, op, out);
    group_->meet(rank_, "reduce-scatter");
  }

  void all_to_all(const std::byte* in, std::span<const std::int64_t> send_bytes, std::byte* out,
                  std::span<const std::int64_t> receive_bytes) override {
    // A rank's blocks for us begin behind its blocks for lower ranks; it tells us where.
    send_offsets_.assign(send_bytes.size() + 1, 0);
    for (std::size_t i = 0; i < send_bytes.size(); ++i) {
      send_offsets_[i + 1] = send_offsets_[i] + send_bytes[i];
    }
    publish(reinterpret_cast<const std::byte*>(send_offsets_.data()), "all-to-all");
    peer_offsets_.resize(static_cast<std::size_t>(size()));
    for (int peer = 0; peer < size(); ++peer) {
      peer_offsets_[static_cast<std::size_t>(peer)] =
          reinterpret_cast<const std::int64_t*>(published(peer))[rank_];
    }
    group_->meet(rank_, "all-to-all");
    publish(in, "all-to-all");
    for (int peer = 0; peer < size(); ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      if (receive_bytes[p] > 0) {
        std::memcpy(out, published(peer) + peer_offsets_[p], bytes(receive_bytes[p]));
      }
      out += receive_bytes[p];
    }
    group_->meet(rank_, "all-to-all");
  }

  void broadcast(std::byte* data, std::int64_t length, int root) override {
    publish(data, "broadcast");
    if (rank_ != root && length > 0) std::memcpy(data, published(root), bytes(length));
    group_->meet(rank_, "broadcast");
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

  void report_progress(std::int64_t progress) override {
    group_->progress[static_cast<std::size_t>(rank_)] = progress;
  }
  std::optional<std::int64_t> progress_of(int rank) const override {
    return group_->progress[static_cast<std::size_t>(rank)];
  }

  void abort() noexcept override { group_->abort(); }

 private:
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count); }

  void publish(const std::byte* data, const char* collective) {
    group_->published[static_cast<std::size_t>(rank_)] = data;
    group_->meet(rank_, collective);
  }

  const std::byte* published(int rank) const {
    return group_->published[static_cast<std::size_t>(rank)];
  }

  void reduce_published(std::int64_t offset, std::int64_t elements, graph::DataType type,
                        ReduceOp op, std::byte* out) {
    sources_.clear();
    for (int peer = 0; peer < size(); ++peer) sources_.push_back(published(peer) + offset);
    reduce_elements(sources_, elements, type, op, out);
  }

  std::shared_ptr<SharedGroup> group_;
  int rank_;
  std::vector<std::byte> buffer_;
  std::vector<const std::byte*> sources_;
  std::vector<std::int64_t> send_offsets_;
  std::vector<std::int64_t> peer_offsets_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int size, std::chrono::milliseconds timeout) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  const auto waits = std::make_shared<Waits>(static_cast<std::size_t>(size));
  const auto group = std::make_shared<SharedGroup>(ranks, timeout, waits);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (const int rank : ranks) {
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  }
  return communicators;
}

}  // namespace autopar::runtime
