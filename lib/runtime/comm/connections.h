#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/rendezvous.h"

namespace autopar::runtime {

/// A rank's connections, shared by the world and its subgroups, and by the threads that are in a
/// collective, send and receive. They tell the others of failures, of long waits, and that this
/// rank is done.
class Connections {
 public:
  Connections(int rank, std::vector<PeerSockets> peers, Network& network);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  /// The others may still be at work, but not with this rank. It has failed if an error unwinds it.
  ~Connections();

  int rank() const { return rank_; }
  Network& network() const { return network_; }
  const Socket& data(int peer) const { return peers_[at(peer)].data; }
  const Socket& messages(int peer) const { return peers_[at(peer)].messages; }
  bool has_left(int peer) const { return has_left_[at(peer)]; }
  bool is_waiting(int peer) const { return is_waiting_[at(peer)]; }

  /// One of this rank's threads, which come and go, begins to wait for long (1), or ends it (-1).
  void count_long_wait(int change);

  /// Throws if any rank of the world is known to have failed; `what` is given up then.
  void check(const char* what);
  /// Waits until one of `sockets` is ready or a rank is known to have failed, which throws; false
  /// at the deadline.
  bool wait(const char* what, std::vector<pollfd> sockets, Deadline deadline);

  /// The connection to a rank whose data is needed has ended.
  [[noreturn]] void lose(const char* what, int peer);
  /// Tells all others which rank failed and throws.
  [[noreturn]] void give_up(int failed_rank, const std::string& why);
  void fail_all(int failed_rank) noexcept;

 private:
  static constexpr int nobody = -1;

  void tell_all(std::int32_t notice) const noexcept;
  std::vector<pollfd> watched() const;
  void hear_notices(const char* what);
  [[noreturn]] void throw_failure(const char* what, int failed_rank) const;

  int rank_;
  Network& network_;
  std::vector<PeerSockets> peers_;
  std::vector<std::atomic<bool>> has_left_;
  std::vector<std::atomic<bool>> is_waiting_;
  std::mutex hearing_;  ///< held while notices are taken from the sockets
  std::mutex telling_;
  int long_waits_ = 0;                     ///< of this rank's threads
  std::atomic<int> failed_rank_ = nobody;  ///< `abort` may come from another thread
  Socket failure_;                         ///< an alarm, rung once a rank is known to have failed
};

}  // namespace autopar::runtime
