#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/notice.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/comm/signs_of_life.h"

namespace autopar::runtime {

/// A rank's connections, shared by the world and its subgroups, and by the threads that are in a
/// collective, send and receive.
///
/// A connection is made when it is first needed, by the rank that sends over it. What goes back
/// over one of data are notices alone, which therefore never wait behind tensors: that a rank
/// failed, is done, works or waits. A rank that waits for another one connects to it, to
/// hear them. Rank 0 connects to all, and all hear of a failure from it at the latest.
class Connections {
 public:
  /// `timeout`: how long ranks wait for one that gives no sign.
  Connections(Meeting meeting, Network& network, std::chrono::milliseconds timeout);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  /// The others may still be at work, but not with this rank. It has failed if an error unwinds it.
  ~Connections();

  /// Waits until rank 0 is connected with all others both ways, so that all hear of failures.
  void join(std::chrono::milliseconds timeout);

  int rank() const { return self_->rank; }
  Network& network() const { return network_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  bool has_left(int peer) const { return signs_.has_left(peer); }
  const SignsOfLife& signs() const { return signs_; }

  /// While connections are made, another thread may be the one to hear that one is, and who waits
  /// looks again after so long: more with many ranks, which may share a machine's cores.
  std::chrono::milliseconds pause_while_connecting() const;
  /// The connection to send over; null until it is made, which begins by this call.
  const Socket* outgoing(int peer, Channel channel);
  /// The connection to receive from; null until the peer has made it.
  const Socket* incoming(int peer, Channel channel) const;
  /// Goes on with the connections that are being made.
  void progress();
  /// Whether no connection to the peer can be made any more.
  bool is_out_of_reach(int peer) const { return peers_[at(peer)].is_out_of_reach; }

  /// Tells the others that this rank works or waits. False where they have been told a short while
  /// ago.
  bool tell(Sign sign);
  /// A rank whose data comes is well.
  void hear_from(int peer) { signs_.hear(peer, Sign::works, network_.now()); }

  /// Throws if any rank of the world is known to have failed; `what` is given up then.
  void check(const char* what);
  /// Waits until one of `sockets` is ready, a connection is made or a rank is known to have failed,
  /// which throws; false at the deadline.
  bool wait(const char* what, std::vector<pollfd> sockets, Deadline deadline);

  /// Waits a short while, as one that waits for others, until a rank is known to have failed, which
  /// throws.
  void await_cause(const char* what);

  /// The connection to a rank that is needed has ended, or cannot be made.
  [[noreturn]] void lose(const char* what, int peer);
  /// Tells all others which rank failed and throws.
  [[noreturn]] void give_up(int failed_rank, Notice::Cause cause, const std::string& why);
  /// This rank has failed.
  void fail_here() noexcept;

 private:
  /// A connection that other threads may use once it is up.
  struct Link {
    Socket socket;
    std::atomic<bool> is_up = false;
  };
  struct Peer {
    std::array<Link, channels> outgoing;
    std::array<Link, channels> incoming;
    std::array<std::unique_ptr<Dialing>, channels> dialing;
    std::array<Deadline, channels> dials_again_at;
    NoticeReader heard;
    NoticeWriter told;
    std::atomic<bool> has_joined = false;  ///< all, as rank 0 says
    std::atomic<bool> is_out_of_reach = false;
    std::string why_out_of_reach;  ///< written before the flag
  };

  void dial(int peer, Channel channel);
  void install(IncomingPeer peer);
  void advance(int peer, Channel channel);
  std::vector<pollfd> awaited() const;

  void tell_all(const Notice& notice) noexcept;
  void fail_all(const Notice& notice) noexcept;
  void hear_notices(const char* what);
  void hear(const char* what, int peer);
  [[noreturn]] void throw_failure(const char* what) const;
  void let_all_be_sent(std::chrono::milliseconds most) noexcept;

  std::shared_ptr<const Introduction> self_;
  Network& network_;
  std::chrono::milliseconds timeout_;
  SignsOfLife signs_;
  std::vector<SocketAddress> addresses_;
  std::vector<Peer> peers_;

  mutable std::mutex making_;  ///< held while connections are made
  Listener listener_;
  std::vector<std::pair<int, Channel>> dialed_;  ///< what is being made from here

  std::mutex hearing_;  ///< held while notices are taken from the sockets
  std::mutex telling_;
  std::atomic<SteadyTime> last_told_{};
  std::atomic<SteadyTime> last_work_told_{};

  std::mutex failing_;
  std::atomic<bool> has_failed_ = false;  ///< `abort` may come from another thread
  Notice failure_;                        ///< written before the flag
  Socket failure_alarm_;                  ///< rung once a rank is known to have failed
};

}  // namespace autopar::runtime
