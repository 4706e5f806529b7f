#include "runtime/comm/tcp_communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <string_view>

#include "base/error.h"
#include "runtime/comm/transport_communicator.h"

namespace autopar::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// What goes over control connections: the rank that failed, or what the sender does. One that has
/// waited for a while itself is not the one to blame that others wait for it.
using Notice = std::int32_t;
constexpr Notice done = -1;
constexpr Notice waiting = -2;
constexpr Notice going_on = -3;

/// A rank's connections, shared by the world and its subgroups, and by the threads that are in a
/// collective, send and receive.
class Connections {
 public:
  Connections(int rank, std::vector<PeerSockets> peers)
      : rank_(rank),
        peers_(std::move(peers)),
        has_left_(peers_.size()),
        is_waiting_(peers_.size()),
        failure_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!failure_.is_open()) fail("rank {}: {}", rank_, std::strerror(errno));
  }

  /// The others may still be at work, but not with this rank. It has failed if an error unwinds it.
  ~Connections() {
    if (failed_rank_ == nobody) tell_all(std::uncaught_exceptions() > 0 ? rank_ : done);
  }

  int rank() const { return rank_; }
  const Socket& data(int peer) const { return peers_[at(peer)].data; }
  const Socket& messages(int peer) const { return peers_[at(peer)].messages; }
  bool has_left(int peer) const { return has_left_[at(peer)]; }
  bool is_waiting(int peer) const { return is_waiting_[at(peer)]; }

  /// One of this rank's threads, which come and go, begins to wait for long (1), or ends it (-1).
  void count_long_wait(int change) {
    const std::lock_guard lock(telling_);
    const bool waited = long_waits_ > 0;
    long_waits_ += change;
    const bool waits = long_waits_ > 0;
    if (waits != waited && failed_rank_ == nobody) tell_all(waits ? waiting : going_on);
  }

  /// Throws if any rank of the world is known to have failed; `what` is given up then.
  void check(const char* what) {
    if (failed_rank_ != nobody) throw_failure(what, failed_rank_);
    std::vector<pollfd> controls = watched();
    if (poll(controls.data(), controls.size(), 0) > 0) hear_notices(what);
  }

  /// Waits until one of `sockets` is ready or a rank is known to have failed, which throws; false
  /// at the deadline.
  bool wait(const char* what, std::vector<pollfd> sockets, Deadline deadline) {
    const auto of_data = static_cast<std::ptrdiff_t>(sockets.size());
    const std::vector<pollfd> controls = watched();
    sockets.insert(sockets.end(), controls.begin(), controls.end());
    const int ready = poll(sockets.data(), sockets.size(), milliseconds_until(deadline));
    const auto is_ready = [](const pollfd& each) { return each.revents != 0; };
    if (ready > 0 && std::any_of(sockets.begin() + of_data, sockets.end(), is_ready))
      hear_notices(what);
    return ready != 0 || Clock::now() < deadline;
  }

  /// The connection to a rank whose data is needed has ended.
  [[noreturn]] void lose(const char* what, int peer) {
    check(what);
    if (has_left(peer))
      give_up(peer, fmt::format("rank {}: {} needs rank {}, which is done already: were all ranks "
                                "started with the same options?",
                                rank_, what, peer));
    give_up(peer, fmt::format("rank {}: {} lost rank {}: its process has ended, or the connection "
                              "is broken",
                              rank_, what, peer));
  }

  /// Tells all others which rank failed and throws.
  [[noreturn]] void give_up(int failed_rank, const std::string& why) {
    fail_all(failed_rank);
    throw Error(why);
  }

  void fail_all(int failed_rank) noexcept {
    int expected = nobody;
    if (!failed_rank_.compare_exchange_strong(expected, failed_rank)) return;
    tell_all(failed_rank);
    // This rank's own threads, which may wait for other things.
    const std::uint64_t once = 1;
    [[maybe_unused]] const ssize_t written = write(failure_.descriptor(), &once, sizeof once);
  }

 private:
  static constexpr int nobody = -1;

  void tell_all(Notice notice) const noexcept {
    for (const PeerSockets& peer : peers_) {
      if (peer.control.is_open())
        send(peer.control.descriptor(), &notice, sizeof notice, MSG_NOSIGNAL);
    }
  }

  /// The control connections of those who have not said that they are done, and whether another
  /// thread has heard of a failure.
  std::vector<pollfd> watched() const {
    std::vector<pollfd> controls = {{failure_.descriptor(), POLLIN, 0}};
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
      const Socket& control = peers_[peer].control;
      if (control.is_open() && !has_left_[peer]) {
        controls.push_back({control.descriptor(), POLLIN, 0});
      }
    }
    return controls;
  }

  void hear_notices(const char* what) {
    const std::lock_guard lock(hearing_);
    if (failed_rank_ != nobody) throw_failure(what, failed_rank_);
    for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
      const Socket& control = peers_[at(peer)].control;
      if (!control.is_open() || has_left(peer)) continue;
      Notice notice = 0;
      const ssize_t received = recv(control.descriptor(), &notice, sizeof notice, 0);
      if (received < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (received != sizeof notice)
        give_up(peer, fmt::format("rank {}: {} was given up: rank {} died or cannot be reached",
                                  rank_, what, peer));
      if (notice == done) {
        has_left_[at(peer)] = true;
        continue;
      }
      if (notice == waiting || notice == going_on) {
        is_waiting_[at(peer)] = notice == waiting;
        continue;
      }
      fail_all(notice);
      throw_failure(what, notice);
    }
  }

  [[noreturn]] void throw_failure(const char* what, int failed_rank) const {
    if (failed_rank == rank_)
      fail("rank {}: {} was given up: this rank failed, or others waited for it too long", rank_,
           what);
    throw GivenUp(fmt::format("rank {}: {} was given up: another rank failed (rank {})", rank_,
                              what, failed_rank));
  }

  int rank_;
  std::vector<PeerSockets> peers_;
  std::vector<std::atomic<bool>> has_left_;
  std::vector<std::atomic<bool>> is_waiting_;
  std::mutex hearing_;  ///< held while notices are taken from the sockets
  std::mutex telling_;
  int long_waits_ = 0;                     ///< of this rank's threads
  std::atomic<int> failed_rank_ = nobody;  ///< `abort` may come from another thread
  Descriptor failure_;                     ///< can be read once a rank is known to have failed
};

/// What a message begins with: ranks that are not at the same collective must not take each other's
/// data for theirs.
struct Header {
  std::array<char, 16> collective{};
  std::int64_t bytes = 0;
  bool operator==(const Header&) const = default;
};

/// What is no collective, and takes connections of its own.
constexpr std::string_view message_label = "a message";

/// The messages of one collective, all of them on their way at the same time.
class Transfer {
 public:
  /// `label` is what both ends know the transfer as.
  Transfer(Connections& connections, const char* what, std::chrono::milliseconds timeout,
           std::string_view label)
      : connections_(connections), what_(what), timeout_(timeout), label_(label) {
    label_.copy(header_.collective.data(), header_.collective.size());
    connections_.check(what);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() { tell_wait(false); }

  void send(int peer, const std::byte* data, std::int64_t bytes) {
    header_.bytes = bytes;
    sends_.push_back(
        {.peer = peer, .header = header_, .data = const_cast<std::byte*>(data), .bytes = bytes});
  }
  void receive(int peer, std::byte* data, std::int64_t bytes) {
    receives_.push_back({.peer = peer, .header = {}, .data = data, .bytes = bytes});
  }

  /// Waits until all is sent and received. The timeout is for nothing at all being moved. It is
  /// doubled where all that are missing wait for others: these have their names from them by then.
  void finish() {
    Clock::time_point last_move = Clock::now();
    std::chrono::milliseconds patience = timeout_;
    while (move()) {
      if (has_moved_) {
        last_move = Clock::now();
        patience = timeout_;
        tell_wait(false);
      }
      const auto until = is_wait_told_ ? patience : timeout_ / parts_of_timeout;
      if (connections_.wait(what_, awaited(), last_move + until)) continue;
      if (!is_wait_told_) {
        tell_wait(true);
      } else if (patience == timeout_ && idle_peers().empty()) {
        patience = 2 * timeout_;
      } else {
        give_up_waiting(patience);
      }
    }
  }

 private:
  struct Message {
    int peer = 0;
    Header header;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    std::size_t moved = 0;  ///< of header and data

    std::size_t total() const { return sizeof header + static_cast<std::size_t>(bytes); }
    static bool is_done(const Message& message) { return message.moved == message.total(); }
  };

  /// After this part of the timeout a wait is told to the others.
  static constexpr int parts_of_timeout = 8;

  /// Tells the other ranks that this one waits, or goes on, unless they know.
  void tell_wait(bool waits) {
    if (waits != is_wait_told_) connections_.count_long_wait(waits ? 1 : -1);
    is_wait_told_ = waits;
  }

  /// Moves what can be moved now; false when all is.
  bool move() {
    has_moved_ = false;
    for (Message& message : sends_) has_moved_ |= advance(message, sendmsg);
    for (Message& message : receives_) {
      has_moved_ |= advance(message, recvmsg);
      check_header(message);
    }
    std::erase_if(sends_, &Message::is_done);
    std::erase_if(receives_, &Message::is_done);
    return !sends_.empty() || !receives_.empty();
  }

  /// Moves what can be moved now, by sendmsg or recvmsg; whether that is anything.
  template <typename Move>
  bool advance(Message& message, const Move& move) {
    const std::size_t before = message.moved;
    while (!Message::is_done(message)) {
      std::array<iovec, 2> parts{};
      msghdr both{};
      both.msg_iov = parts.data();
      if (message.moved < sizeof message.header) {
        parts[both.msg_iovlen++] = {reinterpret_cast<std::byte*>(&message.header) + message.moved,
                                    sizeof message.header - message.moved};
      }
      const std::size_t of_data =
          std::max(message.moved, sizeof message.header) - sizeof message.header;
      parts[both.msg_iovlen++] = {message.data + of_data,
                                  static_cast<std::size_t>(message.bytes) - of_data};
      const ssize_t moved = move(socket_of(message).descriptor(), &both, MSG_NOSIGNAL);
      if (moved > 0) {
        message.moved += static_cast<std::size_t>(moved);
      } else if (moved < 0 && errno == EAGAIN) {
        break;
      } else if (moved == 0 || errno != EINTR) {
        connections_.lose(what_, message.peer);
      }
    }
    return message.moved > before;
  }

  void check_header(const Message& message) {
    header_.bytes = message.bytes;
    if (message.moved < sizeof message.header || message.header == header_) return;
    const auto& other = message.header.collective;
    connections_.give_up(
        message.peer,
        fmt::format("rank {} is at {} of {} bytes, but rank {} at {} of {}: were both started with "
                    "the same options?",
                    connections_.rank(), label_, message.bytes, message.peer,
                    std::string_view(other.data(), strnlen(other.data(), other.size())),
                    message.header.bytes));
  }

  const Socket& socket_of(const Message& message) const {
    return label_ == message_label ? connections_.messages(message.peer)
                                   : connections_.data(message.peer);
  }

  std::vector<pollfd> awaited() const {
    std::vector<pollfd> sockets;
    for (const Message& message : sends_) {
      sockets.push_back({socket_of(message).descriptor(), POLLOUT, 0});
    }
    for (const Message& message : receives_) {
      sockets.push_back({socket_of(message).descriptor(), POLLIN, 0});
    }
    return sockets;
  }

  std::vector<int> missing_peers() const {
    std::vector<int> missing;
    for (const Message& message : receives_.empty() ? sends_ : receives_)
      missing.push_back(message.peer);
    return missing;
  }

  /// The missing peers that do not wait themselves.
  std::vector<int> idle_peers() const {
    std::vector<int> idle = missing_peers();
    std::erase_if(idle, [&](int peer) { return connections_.is_waiting(peer); });
    return idle;
  }

  [[noreturn]] void give_up_waiting(std::chrono::milliseconds waited) {
    const std::vector<int> idle = idle_peers();
    const std::vector<int> absent = idle.empty() ? missing_peers() : idle;
    connections_.give_up(
        absent.front(),
        fmt::format("rank {}: {} waited {} ms for rank(s) {}; they did not come",
                    connections_.rank(), what_, waited.count(), fmt::join(absent, ", ")));
  }

  Connections& connections_;
  const char* what_;
  std::chrono::milliseconds timeout_;
  std::string_view label_;
  Header header_;
  std::vector<Message> sends_;
  std::vector<Message> receives_;
  bool has_moved_ = false;     ///< at the last look
  bool is_wait_told_ = false;  ///< to the other ranks
};

class TcpCommunicator final : public TransportCommunicator {
 public:
  /// `members`: the world's ranks in this group, in order.
  TcpCommunicator(std::shared_ptr<Connections> connections, std::vector<int> members,
                  std::chrono::milliseconds timeout)
      : connections_(std::move(connections)), members_(std::move(members)), timeout_(timeout) {
    const auto me = std::ranges::find(members_, connections_->rank());
    require(me != members_.end(), "a rank makes only subgroups that it is in");
    rank_ = static_cast<int>(me - members_.begin());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

  std::unique_ptr<HostCommunicator> subgroup(std::span<const int> ranks) override {
    std::vector<int> members;
    for (const int rank : ranks) members.push_back(members_[at(rank)]);
    return std::make_unique<TcpCommunicator>(connections_, std::move(members), timeout_);
  }

  void send(const std::byte* data, std::int64_t bytes, int to) override {
    Transfer transfer(*connections_, "a send", timeout_, message_label);
    transfer.send(members_[at(to)], data, bytes);
    transfer.finish();
  }
  void receive(std::byte* out, std::int64_t bytes, int from) override {
    Transfer transfer(*connections_, "a receive", timeout_, message_label);
    transfer.receive(members_[at(from)], out, bytes);
    transfer.finish();
  }

  void barrier(std::optional<std::chrono::milliseconds> timeout) override {
    const std::vector<SendBlock> empty(members_.size(), {.bytes = 0});
    std::vector<ReceiveBlock> receives(members_.size(), {.bytes = 0});
    exchange_within(timeout.value_or(timeout_), "barrier", empty, receives);
  }

  void check_members() override {
    connections_->check("the run");
    for (const int member : members_) {
      if (connections_->has_left(member)) connections_->lose("the run", member);
    }
  }

  void abort() noexcept override { connections_->fail_all(connections_->rank()); }

 private:
  void exchange(const char* what, std::span<const SendBlock> sends,
                std::span<ReceiveBlock> receives) override {
    provide_memory(receives);
    exchange_within(timeout_, what, sends, receives);
  }

  void exchange_within(std::chrono::milliseconds timeout, const char* what,
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
  std::chrono::milliseconds timeout_;
  int rank_ = 0;
};

}  // namespace

std::unique_ptr<HostCommunicator> make_tcp_communicator(const Rendezvous& rendezvous) {
  std::vector<int> all;
  for (int rank = 0; rank < rendezvous.size; ++rank) all.push_back(rank);
  return std::make_unique<TcpCommunicator>(
      std::make_shared<Connections>(rendezvous.rank, connect_all(rendezvous)), std::move(all),
      rendezvous.run_timeout.value_or(rendezvous.timeout));
}

}  // namespace autopar::runtime
